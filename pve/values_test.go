package pve_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
)

func TestParseVolumeID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		want    pve.VolumeID
		wantErr string
	}{
		{text: "volumes.hdd:base-269-disk-0", want: pve.VolumeID{Storage: "volumes.hdd", Name: "base-269-disk-0"}},
		{text: "local:iso/debian:13.iso", want: pve.VolumeID{Storage: "local", Name: "iso/debian:13.iso"}},
		{text: "data:200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2", want: pve.VolumeID{Storage: "data", Name: "200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2"}},
		{text: "none", wantErr: `"none" is no volume`},
		{text: ":x", wantErr: "want storage:name"},
		{text: "local:", wantErr: "want storage:name"},
		{text: "", wantErr: "want storage:name"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			got, err := pve.ParseVolumeID(tt.text)
			if tt.wantErr != "" {
				assert.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.text, got.String())
		})
	}
}

// TestTurns: the server has one lock for each guest and each storage, row 102.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("width ", width), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := pve.NewTurns(width)
				var inside, most, others atomic.Int64
				var wait sync.WaitGroup
				for range 20 {
					wait.Go(func() {
						done, err := turns.Take(t.Context(), "guest/100")
						if !assert.NoError(t, err) {
							return
						}
						defer done()
						defer done() // no harm
						now := inside.Add(1)
						for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
						}
						time.Sleep(time.Second)
						inside.Add(-1)
					})
					wait.Go(func() {
						done, err := turns.Take(t.Context(), fmt.Sprint("guest/", 200+others.Add(1)))
						if assert.NoError(t, err) {
							done()
						}
					})
				}
				began := time.Now()
				wait.Wait()
				assert.EqualValues(t, max(width, 1), most.Load())
				assert.Equal(t, time.Duration((20+max(width, 1)-1)/max(width, 1))*time.Second, time.Since(began), "other names do not wait")
			})
		})
	}
}

func TestTurnsEndWithTheContext(t *testing.T) {
	t.Parallel()
	turns := pve.NewTurns(1)
	done, err := turns.Take(t.Context(), "a")
	require.NoError(t, err)
	why := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = turns.Take(ctx, "a")
	require.ErrorIs(t, err, why)
	done()
	done, err = turns.Take(t.Context(), "a")
	require.NoError(t, err)
	done()
}

func ExampleTurns() {
	turns := pve.NewTurns(1)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			done, err := turns.Take(context.Background(), "storage/local-lvm")
			if err != nil {
				return
			}
			defer done()
			fmt.Println("one clone at a time")
		})
	}
	wait.Wait()
	// Output:
	// one clone at a time
	// one clone at a time
	// one clone at a time
}

func ExampleParseSize() {
	set, _ := pve.ParseSize("4096G")
	read, _ := pve.ParseSize("4T")
	fmt.Println(set == read, pve.FormatSize(set))
	// Output: true 4T
}
