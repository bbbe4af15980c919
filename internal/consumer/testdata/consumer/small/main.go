// A program that does nothing but ask one question.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/proxkit/proxkit/pve"
)

func main() {
	before := runtime.NumGoroutine()
	if len(os.Args) != 2 {
		fmt.Println("goroutines:", before)
		return
	}
	client, err := pve.NewClient(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("goroutines:", before, runtime.NumGoroutine())
	next, err := client.GetNextVMID(context.Background(), pve.GetNextVMIDParams{})
	fmt.Println(next, err)
}
