// Command faultmatrix tries every fault at every API call of every method of the
// CPI, does what the Director does next, and checks that nothing is wrong or left
// over then.
//
//	faultmatrix [-cpi ./bin/proxmox-cpi] [-method create_vm] [-fault cut+]
//
// Which API calls a method makes is found out by recording it without a fault on a
// simulated cluster; every cell of the matrix has a cluster of its own. A cell
// holds when the call ends in success or in an error of the right class that says
// what to do and shows no secret, the Director's next step (the same call again,
// the call after it, or what the console asks) succeeds on the healed cluster, and
// then there is no VM, volume, ISO, import, template, tag, lock or file that
// nothing owns, and the operator's own guests are as they were. The exit status is
// 1 when a cell does not hold that is no named exception.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if os.Getenv(actAsCPI) != "" {
		serveCPI()
	}
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "faultmatrix:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("faultmatrix", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		program    = flags.String("cpi", "", "CPI `program` for the calls that are killed; this program itself when empty")
		onlyMethod = flags.String("method", "", "comma-separated `names` of methods; all when empty")
		onlyFault  = flags.String("fault", "", "comma-separated `letters` of faults, as in the table's head; all when empty")
		onlySite   = flags.String("site", "", "`text` that the API calls must contain")
		reduced    = flags.Bool("reduced", false, "only the worst faults")
		jobs       = flags.Int("j", 24, "how many cells to run at once; they mostly wait")
		slow       = flags.Int("slow", 0, "name so many of the slowest cells")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -h", flags.Arg(0))
	}
	begun := time.Now()
	dir, err := os.MkdirTemp("", "faultmatrix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := newMatrix(dir, *program, *jobs)
	if err != nil {
		return err
	}
	faults := slices.DeleteFunc(faults(), func(f fault) bool {
		return *reduced && !f.worst || !listed(*onlyFault, f.letter)
	})
	methods := slices.DeleteFunc(methods(), func(m method) bool { return !listed(*onlyMethod, m.name) && !listed(*onlyMethod, m.call) })
	cells, err := m.plan(methods, faults)
	if err != nil {
		return err
	}
	cells = slices.DeleteFunc(cells, func(c *cell) bool { return !strings.Contains(c.site.line(), *onlySite) })
	if len(cells) == 0 {
		return fmt.Errorf("no cell of the matrix is called that; see the table without -method, -fault and -site")
	}
	m.progress = func(done, all int) {
		if done%100 == 0 {
			fmt.Fprintf(stderr, "%d of %d cells, %s\n", done, all, time.Since(begun).Round(time.Second))
		}
	}
	m.run(cells)
	printTable(stdout, cells, faults)
	printProblems(stdout, cells)
	if *slow > 0 {
		printSlowest(stdout, cells, *slow)
	}
	t := count(cells)
	fmt.Fprintf(stdout, "\n%s; %s\n", t, time.Since(begun).Round(time.Second))
	if t.fail > 0 {
		return fmt.Errorf("%d cells do not hold", t.fail)
	}
	whole := *onlyMethod == "" && *onlyFault == "" && *onlySite == "" && !*reduced
	if names := stale(cells); whole && len(names) > 0 {
		return fmt.Errorf("exceptions that excuse nothing any more: %s", strings.Join(names, ", "))
	}
	return nil
}

func listed(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

func printSlowest(w io.Writer, cells []*cell, n int) {
	sorted := slices.SortedFunc(slices.Values(cells), func(a, b *cell) int { return int(b.took - a.took) })
	for _, c := range sorted[:min(n, len(sorted))] {
		fmt.Fprintf(w, "%8s %s\n", c.took.Round(time.Millisecond), c)
	}
}
