package main

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(actAsCPI) != "" {
		serveCPI()
	}
	os.Exit(m.Run())
}

// A small form of the burst. What it measures in time depends on the machine,
// which other tests keep busy, so that is looser here.
func TestSmallBurst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	f, err := newField("", 3, 3, 20)
	require.NoError(t, err)
	defer f.close()
	const task = 150 * time.Millisecond
	created := f.burst(t.Context(), f.creations(10), task)
	t.Logf("creations:\n%s", created)
	require.NoError(t, created.check(3, 4))
	assert.Equal(t, 10, created.guests["bosh-vm"])
	assert.Equal(t, 30, created.tasks)
	assert.Positive(t, created.peakTasks)

	calls, err := f.mixture(t.Context(), 40)
	require.NoError(t, err)
	assert.Len(t, calls, 40)
	mixed := f.burst(t.Context(), calls, task)
	t.Logf("mixed:\n%s", mixed)
	require.NoError(t, mixed.check(3, 4))
}

// Without the gate the node is overrun, and the figures say so.
func TestBurstThatIsTooWide(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	f, err := newField("", 64, 3, 20)
	require.NoError(t, err)
	defer f.close()
	r := f.burst(t.Context(), f.creations(12), 300*time.Millisecond)
	assert.ErrorContains(t, r.check(3, 100), "tasks were under way at once, more than 3")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := result{calls: 4, width: 2, took: 10 * time.Second, work: 18 * time.Second, peakRequests: 2, peakTasks: 2}
	require.NoError(t, good.check(2, 1.3))
	for want, spoil := range map[string]func(r *result){
		"2 calls failed":                 func(r *result) { r.failed, r.errs = 2, []error{errors.New("a"), errors.New("b")} },
		"3 requests and 2 tasks":         func(r *result) { r.peakRequests = 3 },
		"2 requests and 3 tasks":         func(r *result) { r.peakTasks = 3 },
		"given twice: [101]":             func(r *result) { r.twice = []string{"101"} },
		"1 guests are unfinished":        func(r *result) { r.guests = map[string]int{"unfinished": 1} },
		"it took 12s instead of at most": func(r *result) { r.took = 12 * time.Second },
	} {
		r := good
		spoil(&r)
		assert.ErrorContains(t, r.check(2, 1.3), want)
	}
	assert.Contains(t, good.String(), "1.11 × (work ÷ 2)")
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.ErrorContains(t, run(t.Context(), []string{"surplus"}, &out, &out), "unexpected argument")
	assert.Error(t, run(t.Context(), []string{"-workers", "0"}, &out, &out))
}
