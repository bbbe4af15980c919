package pbs

import (
	"context"
	"time"

	"github.com/proxkit/proxkit/internal/rest"
)

type (
	// A TaskResult tells how a task ended that did its work.
	TaskResult = rest.TaskResult

	// A TaskWaitError tells that the wait for a task ended before the task did. It
	// names the task and wraps the reason, such as the cause of an ended context.
	TaskWaitError = rest.TaskWaitError

	// A TaskLogLine is a line of a task's log.
	TaskLogLine = rest.TaskLogLine

	// A TaskProgress is what is known about a task while it runs.
	TaskProgress = rest.TaskProgress

	// A WaitOption changes how [Client.WaitTask] waits.
	WaitOption = rest.WaitOption
)

// WaitTask waits until the task has ended. The result of a task that did its work is
// returned, also when it gave warnings; a task that failed is a [*TaskError], to which
// the classes of errors apply ([ErrLocked] and the others).
//
// ctx is the only limit. When it ends, the error is a [*TaskWaitError], and the task
// runs on. Connection faults and nodes out of reach do not end the wait.
//
// The empty UPID, which calls return that did their work at once, succeeds without a
// request.
func (c *Client) WaitTask(ctx context.Context, upid UPID, opts ...WaitOption) (TaskResult, error) {
	return c.rest.WaitTask(ctx, upid, opts...)
}

// WaitTasks waits for several tasks in one loop until all have ended. The results have
// the order of upids; where a task failed, its result is empty and its [*TaskError] is
// one of those that the error joins. When ctx ends, the error holds a [*TaskWaitError]
// for every task that still runs.
func (c *Client) WaitTasks(ctx context.Context, upids []UPID, opts ...WaitOption) ([]TaskResult, error) {
	return c.rest.WaitTasks(ctx, upids, opts...)
}

// WithTaskLog calls f for every line of the task's log, in order and once each, while
// the task runs and after it has ended.
func WithTaskLog(f func(TaskLogLine)) WaitOption { return rest.WithTaskLog(f) }

// WithTaskProgress calls f after every look at the task that finds it running.
func WithTaskProgress(f func(TaskProgress)) WaitOption { return rest.WithTaskProgress(f) }

// WithTaskPoll sets how often to look: after first at the beginning, then more and
// more rarely, but every longest at least. The default is 50 ms and 2 s.
func WithTaskPoll(first, longest time.Duration) WaitOption { return rest.WithTaskPoll(first, longest) }

// WithTaskLogTail sets how many of the log's last lines a [TaskError] carries. The
// default is 20; 0 saves the request.
func WithTaskLogTail(lines int) WaitOption { return rest.WithTaskLogTail(lines) }
