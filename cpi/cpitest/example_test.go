package cpitest_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
)

// A CPI that has nothing but the protocol passes the scenario that is about the
// protocol alone.
func ExampleCheck() {
	sim, err := cpitest.Simulate("rbd")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sim.Close()

	report, err := cpitest.Check(context.Background(), cpitest.Options{
		CPI:     cpitest.Handler(rpc.Static(infoOnly{})),
		Cluster: sim.Cluster(),
		Only:    []string{"protocol", "hotswap"},
	})

	for _, s := range report.Scenarios {
		fmt.Println(s.Name, s.Outcome)
	}
	text, _, _ := strings.Cut(err.Error(), ", without which")
	fmt.Println(text)
	// Output:
	// protocol passed
	// hotswap failed
	// hotswap: an instance with a disk, create_stemcell: the CPI does not implement create_stemcell
}

type infoOnly struct{ rpc.Unimplemented }

func (infoOnly) Info(context.Context) (rpc.Info, error) {
	return rpc.Info{APIVersion: 2, StemcellFormats: []string{"openstack-raw"}}, nil
}

func ExampleScenarios() {
	for _, s := range cpitest.Scenarios()[:3] {
		fmt.Printf("%-12s %s\n", s.Name, s.Title)
	}
	// Output:
	// protocol     requests and answers, without the cluster
	// create-env   bosh create-env: first deploy, recreate, bigger disk, new stemcell, delete-env
	// stemcell     upload a stemcell, twice and for two Directors, delete it
}

func ExampleExpand() {
	config, err := cpitest.Expand([]byte(`{"url": "${ENDPOINT}", "ca": "${CA}"}`), map[string]string{
		"ENDPOINT": "https://127.0.0.1:8006", "CA": "-----BEGIN\nEND-----",
	})
	fmt.Println(string(config), err)
	// Output: {"url": "https://127.0.0.1:8006", "ca": "-----BEGIN\nEND-----"} <nil>
}

// A report of a check that was made elsewhere reads like one of a check in
// progress.
func ExampleReport_WriteText() {
	r := cpitest.Report{Run: "cpicheck-00000000", Outcome: cpitest.Failed, Seconds: 1, Scenarios: []*cpitest.ScenarioReport{{
		Name: "cck", Title: "cloud check", Outcome: cpitest.Failed, Seconds: 1,
		Problems: []string{"reboot, reboot_vm: guest 104 was not restarted"},
		Steps:    []cpitest.StepReport{{Title: "reboot", Seconds: 0.01, Calls: []cpitest.CallReport{{Method: "reboot_vm", Seconds: 0.01, State: "1 stemcell, no VM"}}}},
	}}}
	_ = r.WriteText(os.Stdout, true)
	// Output:
	// FAILED   cck                     1.00 s  cloud check
	//          reboot (10 ms)
	//                10.0 ms  reboot_vm          1 stemcell, no VM
	//            PROBLEM  reboot, reboot_vm: guest 104 was not restarted
	//
	// method                            calls  errors  median ms     max ms
	//
	// run cpicheck-00000000: 0 scenarios passed, 1 failed, 0 skipped; 1 steps, 0 calls in 1.0 s: failed
}
