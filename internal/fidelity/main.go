// Command fidelity replays exchanges recorded from a real Proxmox VE against a
// fresh simulated cluster of pve/pvetest and compares the answers.
//
//	go run ./internal/fidelity -wire FILE
//
// It prints how many exchanges agree and one line for each that does not, and
// fails when one does not.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fidelity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("wire", "", "recorded exchanges, one JSON object a line")
	verbose := flags.Bool("v", false, "also list the exchanges that are exempt or not simulated")
	before := flags.String("before", "", "calls made between the exchanges, one JSON object a line: before, method, path, params")
	only := flags.String("only", "", "print only exchanges whose name starts with this")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *file == "" {
		fmt.Fprintln(stderr, "fidelity: name the recording with -wire FILE")
		return 2
	}
	f, err := os.Open(*file)
	if err != nil {
		fmt.Fprintln(stderr, "fidelity:", err)
		return 1
	}
	defer f.Close()
	exchanges, err := read(f)
	if err != nil {
		fmt.Fprintf(stderr, "fidelity: %s: %v\n", *file, err)
		return 1
	}
	var steps []step
	if *before != "" {
		if steps, err = readSteps(*before); err != nil {
			fmt.Fprintln(stderr, "fidelity:", err)
			return 1
		}
	}
	report, err := replay(exchanges, steps...)
	if err != nil {
		fmt.Fprintln(stderr, "fidelity:", err)
		return 1
	}
	report.print(stdout, *verbose, *only)
	if report.disagree() > 0 {
		return 1
	}
	return 0
}
