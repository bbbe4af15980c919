package pve_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
)

// TestAllTasks walks through a task list page by page.
func TestAllTasks(t *testing.T) {
	t.Parallel()
	lab, newClient := newLab(t)
	client := newClient()
	for range 7 {
		_, err := client.CreateVMWithNextID(t.Context(), pve.CreateVMParams{Node: "pve1"})
		require.NoError(t, err)
	}
	for _, tc := range []struct {
		name         string
		start, limit int64
		stop         int
		want         []int
		calls        int
	}{
		{name: "in pages", limit: 3, want: []int{0, 1, 2, 3, 4, 5, 6}, calls: 3},
		{name: "ends with a full page", limit: 7, want: []int{0, 1, 2, 3, 4, 5, 6}, calls: 1},
		{name: "one at a time", start: 5, limit: 1, want: []int{5, 6}, calls: 2},
		{name: "from behind the end", start: 20, calls: 1},
		{name: "stops where it is told to", limit: 2, stop: 3, want: []int{0, 1, 2}, calls: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lab.ResetRequests()
			all, meta, err := pve.WithMeta(t.Context(), client.ListTasks, pve.ListTasksParams{Node: "pve1"})
			require.NoError(t, err)
			require.Len(t, all, 7)
			assert.Equal(t, int64(7), meta.Total)
			lab.ResetRequests()

			p := pve.ListTasksParams{Node: "pve1"}
			if tc.start > 0 {
				p.Start = &tc.start
			}
			if tc.limit > 0 {
				p.Limit = &tc.limit
			}
			var got []int
			for task, err := range client.AllTasks(t.Context(), p) {
				require.NoError(t, err)
				got = append(got, slices.IndexFunc(all, func(other pve.TaskListItem) bool { return other.UPID == task.UPID }))
				if len(got) == tc.stop {
					break
				}
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.calls, lab.Count("GET /nodes/pve1/tasks"))
		})
	}

	t.Run("asks for nothing before it is walked", func(t *testing.T) {
		lab.ResetRequests()
		walk := client.AllTasks(t.Context(), pve.ListTasksParams{Node: "pve1"})
		assert.Zero(t, lab.Count("GET /nodes/pve1/tasks"))
		for range 2 { // and can be walked again
			n := 0
			for _, err := range walk {
				require.NoError(t, err)
				n++
			}
			assert.Equal(t, 7, n)
		}
	})
	t.Run("ends with an error", func(t *testing.T) {
		lab.ResetRequests()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n, failures := 0, 0
		for task, err := range client.AllTasks(ctx, pve.ListTasksParams{Node: "pve1", Limit: new(int64(3))}) {
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
				assert.Zero(t, task)
				failures++
				continue
			}
			if n++; n == 3 {
				cancel()
			}
		}
		assert.Equal(t, 3, n)
		assert.Equal(t, 1, failures)
	})
}

// TestAllTaskLog walks through a log that has more lines than the server gives unasked.
func TestAllTaskLog(t *testing.T) {
	t.Parallel()
	_, newClient := newLab(t)
	client := newClient()
	_, err := client.CreateVMWithNextID(t.Context(), pve.CreateVMParams{Node: "pve1"})
	require.NoError(t, err)
	tasks, err := client.ListTasks(t.Context(), pve.ListTasksParams{Node: "pve1"})
	require.NoError(t, err)
	require.NotEmpty(t, tasks)
	var lines []string
	for line, err := range client.AllTaskLog(t.Context(), pve.ListTaskLogParams{Node: "pve1", UPID: tasks[0].UPID, Limit: new(int64(1))}) {
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("%d %s", line.N, line.T))
	}
	require.NotEmpty(t, lines)
	assert.Equal(t, fmt.Sprintf("%d TASK OK", len(lines)), lines[len(lines)-1])
}
