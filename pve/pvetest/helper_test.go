package pvetest_test

import "github.com/proxkit/proxkit/pve/pvetest"

// vm is a machine with a config.
func vm(config map[string]string) pvetest.VM { return pvetest.VM{Config: config} }
