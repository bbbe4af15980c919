// Command measure prints the figures that `go test -bench` cannot take: run
// time of the generator, size and build time of the generated clients, and
// start-up time, memory and size of the CPI binary. `make bench` runs it after
// building the examples.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "proxkit-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	for _, step := range []struct {
		name string
		run  func(context.Context, string) error
	}{
		{"the generator", generator},
		{"the generated clients", clients},
		{"a program making one call", oneCall},
		{"the CPI binary answering info", cpiInfo},
		{"a large stemcell image through create_stemcell", stemcell},
	} {
		fmt.Printf("\n%s\n", step.name)
		if err := step.run(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func report(what, format string, args ...any) {
	fmt.Printf("  %-44s %s\n", what, fmt.Sprintf(format, args...))
}

// generator times a run of the built generator over all products.
func generator(ctx context.Context, dir string) error {
	bin := filepath.Join(dir, "generator")
	if err := goBuild(ctx, bin, "./internal/generator"); err != nil {
		return err
	}
	began := time.Now()
	use, err := execute(exec.CommandContext(ctx, bin, "generate"))
	if err != nil {
		return err
	}
	report("all three products, wall time", "%.1f s (at most 10 s)", time.Since(began).Seconds())
	report("peak memory", "%s", mebibytes(use.peak))
	return nil
}

// clients counts generated lines and times a build with an empty cache.
func clients(ctx context.Context, dir string) error {
	total := 0
	for _, product := range []string{"pve", "pbs", "pdm"} {
		files, err := filepath.Glob(filepath.Join(product, "zz_*.go"))
		if err != nil {
			return err
		}
		sum := 0
		for _, file := range files {
			n, err := countLines(file)
			if err != nil {
				return err
			}
			sum += n
		}
		report(product+", generated lines", "%d in %d files", sum, len(files))
		total += sum
	}
	report("all, generated lines", "%d (at most 40000)", total)

	cmd := exec.CommandContext(ctx, "go", "build", "./pve", "./pbs", "./pdm")
	cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "gocache"), "CGO_ENABLED=0")
	began := time.Now()
	if _, err := execute(cmd); err != nil {
		return err
	}
	report("cold go build, standard library included", "%.1f s", time.Since(began).Seconds())
	return nil
}

// oneCall builds the smallest useful program against package pve.
func oneCall(ctx context.Context, _ string) error {
	// The program must live in this module to be built against this checkout.
	dir, err := os.MkdirTemp("internal/measure", "onecall-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const program = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/proxkit/proxkit/pve"
)

func main() {
	client, err := pve.NewClient(os.Args[1], pve.WithAPIToken(os.Args[2], os.Args[3]))
	if err != nil {
		panic(err)
	}
	version, err := client.GetVersion(context.Background())
	fmt.Println(version, err)
}
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		return err
	}
	bin := filepath.Join(dir, "onecall")
	if err := goBuild(ctx, bin, "./"+filepath.ToSlash(dir)); err != nil {
		return err
	}
	return reportSize("stripped size", bin, "aim: 8 MB")
}

// cpiInfo compares the CPI's fastest method with a Go program that only prints.
func cpiInfo(ctx context.Context, dir string) error {
	hello := filepath.Join(dir, "hello.go")
	if err := os.WriteFile(hello, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello, world\") }\n"), 0o600); err != nil {
		return err
	}
	helloBin := filepath.Join(dir, "hello")
	if err := goBuild(ctx, helloBin, hello); err != nil {
		return err
	}
	cpiBin := filepath.Join("bin", "proxmox-cpi")
	if err := reportSize("stripped size", cpiBin, "at most 12 MB"); err != nil {
		return err
	}

	const rounds = 200
	var helloTimes, cpiTimes []time.Duration
	var peak int64
	for range rounds {
		took, _, err := timeOnce(ctx, helloBin, "")
		if err != nil {
			return err
		}
		helloTimes = append(helloTimes, took)
		took, use, err := timeOnce(ctx, cpiBin, `{"method":"info","arguments":[],"context":{"director_uuid":"d"},"api_version":2}`)
		if err != nil {
			return err
		}
		cpiTimes = append(cpiTimes, took)
		peak = max(peak, use.peak)
	}
	h, c := median(helloTimes), median(cpiTimes)
	report("hello world, start to exit, median", "%.2f ms", ms(h))
	report("info, start to exit, median", "%.2f ms, %.2f times hello world (at most 2)", ms(c), float64(c)/float64(h))
	report("info, peak memory", "%s (at most 15 MiB)", mebibytes(peak))
	return nil
}

func timeOnce(ctx context.Context, bin, stdin string) (time.Duration, usage, error) {
	cmd := exec.CommandContext(ctx, bin)
	cmd.Stdin = strings.NewReader(stdin)
	began := time.Now()
	use, err := execute(cmd)
	return time.Since(began), use, err
}

type usage struct {
	peak   int64 // bytes
	stdout []byte
}

// execute runs cmd and reports its peak resident memory. What it printed is
// part of the error when it fails.
//
// The kernel's own record in rusage starts from the memory of the process that
// forked, this one, so the peak is read from /proc while cmd runs. It is 0
// where there is no such file.
func execute(cmd *exec.Cmd) (usage, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	done := make(chan struct{})
	peak := make(chan int64)
	go func() { peak <- watchPeak(cmd.Process.Pid, done) }()
	err := cmd.Wait()
	close(done)
	use := usage{peak: <-peak, stdout: stdout.Bytes()}
	if err != nil {
		return use, fmt.Errorf("%s: %w\n%s%s", filepath.Base(cmd.Path), err, stdout.Bytes(), stderr.Bytes())
	}
	return use, nil
}

func watchPeak(pid int, done <-chan struct{}) (peak int64) {
	status := fmt.Sprintf("/proc/%d/status", pid)
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(status)
		if _, rest, ok := bytes.Cut(text, []byte("VmHWM:")); ok {
			var kb int64
			if _, err := fmt.Sscan(string(rest), &kb); err == nil {
				peak = max(peak, kb*1024)
			}
		}
		select {
		case <-done:
			return peak
		case <-tick.C:
		}
	}
}

func goBuild(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	_, err := execute(cmd)
	return err
}

func reportSize(what, file, limit string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	report(what, "%.2f MB (%s)", float64(info.Size())/1e6, limit)
	return nil
}

func countLines(name string) (int, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		n++
	}
	return n, scanner.Err()
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
