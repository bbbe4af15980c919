package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/proxkit/proxkit/cpi"
)

// printAudit lists what looks left behind on the cluster, one thing a line.
func printAudit(ctx context.Context, w io.Writer, config string) error {
	if config == "" {
		return errors.New("-audit needs -configFile")
	}
	cfg, err := cpi.LoadConfig(config, nil)
	if err != nil {
		return err
	}
	c, err := cpi.New(cfg, cpi.Options{})
	if err != nil {
		return err
	}
	found, err := c.Audit(ctx)
	for _, f := range found {
		fmt.Fprintln(w, f)
	}
	return err
}
