package rest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A TaskResult tells how a task ended that did its work.
type TaskResult struct {
	UPID       UPID
	ExitStatus string // "OK" or "WARNINGS: 2"; empty when there was no task
	Warnings   int    // how many warnings are in the task's log
}

// A TaskError reports a task that failed, or whose outcome the server does not know
// ([ErrTaskUnknown]). The classes of its text apply: see [ErrLocked] and the others.
type TaskError struct {
	UPID       UPID
	ExitStatus string            // what the server says about the end
	Params     map[string]string // complaints by parameter found in it
	Log        []string          // the last lines of the task's log

	product string
	unknown bool
}

// Error implements error.
func (e *TaskError) Error() string {
	verb := "failed"
	if e.unknown {
		verb = "ended with unknown outcome"
	}
	name := string(e.UPID)
	if info, err := e.UPID.Parse(); err == nil {
		name = strings.TrimSpace(info.Type+" "+info.ID) + " on " + info.Node + " (" + name + ")"
	}
	return cmpOr(e.product, "proxmox") + ": task " + name + " " + verb + ": " + oneLine(cmpOr(e.ExitStatus, "no exit status"))
}

// Is reports whether the error is of the class target, one of this package's Err
// variables.
func (e *TaskError) Is(target error) bool {
	if e.unknown {
		return target == ErrTaskUnknown
	}
	return e.classes().has(target)
}

func (e *TaskError) classes() classes { return classifyAll(e.ExitStatus, e.Params) }

// Lock names the lock that stood in the task's way, as [Error.Lock] does.
func (e *TaskError) Lock() string { return lockName(e.ExitStatus) }

// Temporary reports whether the same work may well succeed a little later.
func (e *TaskError) Temporary() bool { return !e.unknown && e.classes().temporary(false, 0) }

// A TaskWaitError reports that waiting for a task ended before the task did, which
// runs on. The cause is the end of the context or an error of the server.
type TaskWaitError struct {
	UPID UPID
	Err  error

	product string
}

// Error implements error.
func (e *TaskWaitError) Error() string {
	return cmpOr(e.product, "proxmox") + ": stopped waiting for task " + string(e.UPID) + ", which may still run: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TaskWaitError) Unwrap() error { return e.Err }

// A TaskLogLine is a line of a task's log.
type TaskLogLine struct {
	N    int64 // counted from 1
	Text string
}

// TaskProgress is what is known about a task while it runs.
type TaskProgress struct {
	UPID     UPID
	Elapsed  time.Duration // since the wait began
	LastLine string        // of the log, so far
	Percent  float64       // the last percentage in the log, or -1
}

// A WaitOption changes how a task is waited for.
type WaitOption func(*waitConfig)

type waitConfig struct {
	minPoll, maxPoll time.Duration
	log              func(TaskLogLine)
	progress         func(TaskProgress)
	tail             int
	grace            time.Duration
}

// WithTaskLog calls f for every line of the task's log, in order and once each, while
// the task runs and after it has ended.
func WithTaskLog(f func(TaskLogLine)) WaitOption {
	return func(c *waitConfig) { c.log = f }
}

// WithTaskProgress calls f after every look at the task that finds it running.
func WithTaskProgress(f func(TaskProgress)) WaitOption {
	return func(c *waitConfig) { c.progress = f }
}

// WithTaskPoll sets how often to look: after first at the beginning, then more and
// more rarely, but every longest at least. The default is 50 ms and 2 s.
func WithTaskPoll(first, longest time.Duration) WaitOption {
	return func(c *waitConfig) {
		if first > 0 {
			c.minPoll = first
		}
		if longest > 0 {
			c.maxPoll = longest
		}
		c.maxPoll = max(c.maxPoll, c.minPoll)
	}
}

// WithTaskLogTail sets how many of the log's last lines a [TaskError] carries. The
// default is 20; 0 saves the request.
func WithTaskLogTail(lines int) WaitOption {
	return func(c *waitConfig) { c.tail = max(lines, 0) }
}

const (
	// taskGrace is how long a task may be unknown to the server after the wait began:
	// the list of tasks lags behind the call that started it.
	taskGrace = 10 * time.Second
	// unknownLooks is how often an unknown outcome is looked at again: the worker may
	// have ended before its last line was written.
	unknownLooks = 3
	logPage      = 500
)

// WaitTask waits until the task has ended. It returns a [*TaskError] for a task that
// failed; warnings are success. ctx is the only limit: when it ends, the error is a
// [*TaskWaitError] that wraps context.Cause, and the task runs on. Connection faults
// and a node that cannot be reached do not end the wait.
//
// The empty UPID stands for work that was done at once and succeeds without a request.
func (c *Client) WaitTask(ctx context.Context, upid UPID, opts ...WaitOption) (TaskResult, error) {
	config := waitConfig{minPoll: 50 * time.Millisecond, maxPoll: 2 * time.Second, tail: 20, grace: taskGrace}
	for _, opt := range opts {
		opt(&config)
	}
	if upid == "" {
		return TaskResult{}, nil
	}
	w, err := c.newTaskWatch(upid, config)
	if err != nil {
		return TaskResult{}, err
	}
	for {
		result, done, err := w.look(ctx)
		if done || err != nil {
			return result, err
		}
		if err := pause(ctx, time.Until(w.next)); err != nil {
			return TaskResult{}, w.ended(ctx, err)
		}
	}
}

// WaitTasks waits for several tasks in one loop until all have ended. The results have
// the order of upids; where a task failed, its result is empty and its [*TaskError] is
// one of those that the error joins. When ctx ends, the error holds a [*TaskWaitError]
// for every task that still runs.
func (c *Client) WaitTasks(ctx context.Context, upids []UPID, opts ...WaitOption) ([]TaskResult, error) {
	config := waitConfig{minPoll: 50 * time.Millisecond, maxPoll: 2 * time.Second, tail: 20, grace: taskGrace}
	for _, opt := range opts {
		opt(&config)
	}
	results := make([]TaskResult, len(upids))
	watches := make(map[int]*taskWatch, len(upids))
	for i, upid := range upids {
		if upid == "" {
			continue
		}
		w, err := c.newTaskWatch(upid, config)
		if err != nil {
			return results, err
		}
		watches[i] = w
	}
	failures := make([]error, len(upids))
	for len(watches) > 0 {
		var next time.Time
		for i := range upids {
			w := watches[i]
			if w == nil {
				continue
			}
			if time.Now().Before(w.next) && ctx.Err() == nil {
				next = earlier(next, w.next)
				continue
			}
			result, done, err := w.look(ctx)
			if done || err != nil {
				results[i], failures[i] = result, err
				delete(watches, i)
				continue
			}
			next = earlier(next, w.next)
		}
		if len(watches) > 0 {
			_ = pause(ctx, time.Until(next)) // an ended context shows at the next look
		}
	}
	return results, errors.Join(failures...)
}

// earlier returns the earlier of two times, where the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// A taskWatch follows one task.
type taskWatch struct {
	client *Client
	config waitConfig
	upid   UPID
	paths  taskPaths
	log    taskLog
	begun  time.Time
	doubts int

	interval time.Duration
	next     time.Time // when to look again
}

// taskPaths are where the API shows one task.
type taskPaths struct {
	status, log string
	params      taskParams
}

type taskParams struct {
	Node   string `json:"node,omitempty"`
	Remote string `json:"remote,omitempty"`
	UPID   string `json:"upid"`
	Start  *int64 `json:"start,omitempty"`
	Limit  *int64 `json:"limit,omitempty"`
}

type taskStatus struct {
	Status     string `json:"status"`
	ExitStatus string `json:"exitstatus"`
}

func (c *Client) newTaskWatch(upid UPID, config waitConfig) (*taskWatch, error) {
	info, err := upid.Parse()
	if err != nil {
		return nil, &ArgumentError{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status", Reason: err.Error(), product: c.product.Name}
	}
	w := &taskWatch{client: c, config: config, upid: upid, begun: time.Now()}
	base := "/nodes/{node}/tasks/{upid}"
	w.paths.params = taskParams{Node: info.Node, UPID: string(upid)}
	if info.Remote != "" {
		kind := info.RemoteType
		if kind == "" {
			kind = "pve"
			if info.HasTaskID {
				kind = "pbs"
			}
		}
		prefix, native, _ := upid.split()
		base = "/" + kind + "/remotes/{remote}/tasks/{upid}"
		w.paths.params = taskParams{Remote: info.Remote, UPID: prefix[:len(prefix)-1] + "!" + native}
	}
	w.paths.status, w.paths.log = base+"/status", base+"/log"
	return w, nil
}

// look asks for the task once. It reports done when there is nothing to wait for.
func (w *taskWatch) look(ctx context.Context) (result TaskResult, done bool, err error) {
	defer func() {
		w.interval = min(max(w.interval+w.interval/2, w.config.minPoll), w.config.maxPoll)
		w.next = time.Now().Add(w.interval)
	}()
	if ctx.Err() != nil {
		return TaskResult{}, false, w.ended(ctx, ctx.Err())
	}
	var status taskStatus
	err = w.client.Call(ctx, http.MethodGet, w.paths.status, &w.paths.params, &status)
	switch {
	case ctx.Err() != nil && err != nil:
		return TaskResult{}, false, w.ended(ctx, err)
	case err != nil && w.tolerable(err):
		return TaskResult{}, false, nil
	case err != nil:
		return TaskResult{}, false, w.ended(ctx, err)
	case status.Status != "stopped":
		if w.config.log != nil || w.config.progress != nil {
			w.log.read(ctx, w, false)
			w.report()
		}
		return TaskResult{}, false, nil
	}
	outcome := judgeExit(status.ExitStatus)
	if outcome.unknown && w.doubts < unknownLooks {
		w.doubts++
		return TaskResult{}, false, nil
	}
	if w.config.log != nil {
		w.log.read(ctx, w, true)
	}
	exit := redact(status.ExitStatus, w.client.secrets(nil))
	if outcome.ok {
		return TaskResult{UPID: w.upid, ExitStatus: exit, Warnings: outcome.warnings}, true, nil
	}
	if w.config.log == nil && w.config.tail > 0 {
		w.log.readTail(ctx, w)
	}
	return TaskResult{}, true, &TaskError{
		UPID: w.upid, ExitStatus: exit, Params: paramsFromText(exit), Log: w.log.tail,
		product: w.client.product.Name, unknown: outcome.unknown,
	}
}

// tolerable reports whether an error of a look says nothing about the task.
func (w *taskWatch) tolerable(err error) bool {
	if _, ok := errors.AsType[*TransportError](err); ok {
		return IsRetryable(err)
	}
	api, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	if api.Temporary() {
		return true
	}
	young := time.Since(w.begun) < w.config.grace
	return young && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotAPI) && api.Status >= 500)
}

// ended explains why the wait is over while the task may run on.
func (w *taskWatch) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = contextOr(ctx, ctx.Err())
	}
	return &TaskWaitError{UPID: w.upid, Err: err, product: w.client.product.Name}
}

func (w *taskWatch) report() {
	if w.config.progress == nil {
		return
	}
	w.config.progress(TaskProgress{
		UPID: w.upid, Elapsed: time.Since(w.begun), LastLine: w.log.last, Percent: percentIn(w.log.lastPercent),
	})
}

// An outcome is what an exit status means.
type outcome struct {
	ok       bool
	warnings int
	unknown  bool
}

func judgeExit(status string) outcome {
	switch {
	case status == "OK":
		return outcome{ok: true}
	case status == "", status == "unknown", status == "unexpected status", strings.HasPrefix(status, "unable to get last line"):
		return outcome{unknown: true}
	}
	if count, ok := strings.CutPrefix(status, "WARNINGS: "); ok {
		if n, err := strconv.Atoi(count); err == nil && n >= 0 {
			return outcome{ok: true, warnings: n}
		}
	}
	return outcome{}
}

// ParseExitStatus tells what a task's exit status means, for those who read task lists
// themselves: the number of warnings for a success, a [*TaskError] otherwise.
func (c *Client) ParseExitStatus(upid UPID, status string) (warnings int, err error) {
	o := judgeExit(status)
	if o.ok {
		return o.warnings, nil
	}
	return 0, &TaskError{UPID: upid, ExitStatus: status, Params: paramsFromText(status), product: c.product.Name, unknown: o.unknown}
}

// A taskLog reads a task's log as it grows.
type taskLog struct {
	next        int64  // lines delivered
	held        string // a last line that may still grow
	heldAt      int64  // its number, 0 for none
	last        string
	lastPercent string
	tail        []string
}

type logLine struct {
	N int64  `json:"n"`
	T string `json:"t"`
}

// read delivers the lines that have come since. While the task runs, the last line is
// held back until a second look finds it unchanged, because it may be half written.
// Errors are left to the next read.
func (l *taskLog) read(ctx context.Context, w *taskWatch, stopped bool) {
	for tries := 0; ; {
		lines, _, err := l.page(ctx, w, l.next, logPage)
		if err != nil {
			tries++
			if !stopped || tries > unknownLooks || pause(ctx, w.config.minPoll<<tries) != nil {
				return
			}
			continue
		}
		if l.next == 0 && len(lines) == 1 && isPlaceholder(lines[0].T) {
			return
		}
		full := len(lines) == logPage
		if !stopped && !full && len(lines) > 0 {
			text, number := lines[len(lines)-1].T, l.next+int64(len(lines))
			if l.heldAt != number || l.held != text {
				l.held, l.heldAt = text, number
				lines = lines[:len(lines)-1]
			}
		}
		for _, line := range lines {
			l.next++
			l.add(line.T, w.config.tail)
			if w.config.log != nil {
				w.config.log(TaskLogLine{N: l.next, Text: l.last})
			}
		}
		if !full {
			return
		}
	}
}

// readTail reads the end of the log alone.
func (l *taskLog) readTail(ctx context.Context, w *taskWatch) {
	lines, total, err := l.page(ctx, w, 0, logPage)
	if err == nil && total > int64(len(lines)) {
		lines, _, err = l.page(ctx, w, max(0, total-int64(w.config.tail)), int64(w.config.tail))
	}
	if err != nil || len(lines) == 1 && isPlaceholder(lines[0].T) {
		return
	}
	for _, line := range lines {
		l.add(line.T, w.config.tail)
	}
}

func (l *taskLog) page(ctx context.Context, w *taskWatch, start, limit int64) ([]logLine, int64, error) {
	params := w.paths.params
	params.Start, params.Limit = &start, &limit
	var lines []logLine
	meta, err := w.client.CallMeta(ctx, http.MethodGet, w.paths.log, &params, &lines)
	secrets := w.client.secrets(nil)
	for i := range lines {
		lines[i].T = redact(lines[i].T, secrets)
	}
	return lines, meta.Total, err
}

func (l *taskLog) add(text string, keep int) {
	l.last = text
	if strings.Contains(text, "%") {
		l.lastPercent = text
	}
	l.tail = append(l.tail, text)
	if len(l.tail) > keep {
		l.tail = l.tail[len(l.tail)-keep:]
	}
}

// isPlaceholder recognises the line that stands for a log that has no line yet.
func isPlaceholder(text string) bool {
	return text == "no content" || strings.HasPrefix(text, "unable to open file - ")
}

// percentIn finds the last percentage in a line, as "transferred 1.0 GiB of 4.0 GiB (25.00%)".
func percentIn(text string) float64 {
	i := strings.LastIndexByte(text, '%')
	if i < 0 {
		return -1
	}
	j := i
	for j > 0 && (text[j-1] >= '0' && text[j-1] <= '9' || text[j-1] == '.') {
		j--
	}
	p, err := strconv.ParseFloat(text[j:i], 64)
	if err != nil || p > 100 {
		return -1
	}
	return p
}

// StopTask asks the server to end the task. It does not wait for the end.
func (c *Client) StopTask(ctx context.Context, upid UPID) error {
	w, err := c.newTaskWatch(upid, waitConfig{})
	if err != nil {
		return err
	}
	path := strings.TrimSuffix(w.paths.status, "/status")
	return c.Call(ctx, http.MethodDelete, path, &w.paths.params, nil)
}
