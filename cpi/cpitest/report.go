package cpitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// The outcomes of a scenario.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// A Report is what came of a check.
type Report struct {
	// Run is the mark that everything of this run carries.
	Run       string            `json:"run"`
	Began     time.Time         `json:"began"`
	Seconds   float64           `json:"seconds"`
	CPI       About             `json:"cpi"`
	Outcome   string            `json:"outcome"`
	Scenarios []*ScenarioReport `json:"scenarios"`
	// Calls are all calls of each method.
	Calls []MethodReport `json:"calls"`
	// Notes are about the run as a whole.
	Notes []string `json:"notes,omitempty"`
}

// A ScenarioReport is what came of one scenario.
type ScenarioReport struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Why says why the scenario was skipped.
	Why string `json:"why,omitempty"`
	// Problems are what is wrong with the CPI. One is enough to fail.
	Problems []string `json:"problems,omitempty"`
	// Skips are parts that could not be checked, Notes what is worth knowing.
	Skips []string     `json:"skips,omitempty"`
	Notes []string     `json:"notes,omitempty"`
	Steps []StepReport `json:"steps"`

	mu   sync.Mutex
	live func(any)
}

// A StepReport is one thing that a Director does, in one or more calls.
type StepReport struct {
	Title   string       `json:"title"`
	Seconds float64      `json:"seconds"`
	Calls   []CallReport `json:"calls"`
}

// A CallReport is one call of the CPI.
type CallReport struct {
	Method  string  `json:"method"`
	Seconds float64 `json:"seconds"`
	// Error is the class of the error that the CPI answered.
	Error string `json:"error,omitempty"`
	// State is what existed after the call, according to the cluster.
	State string `json:"state,omitempty"`
	// Log is what the CPI logged, when the options ask for it.
	Log string `json:"log,omitempty"`
}

// A MethodReport sums up the calls of a method.
type MethodReport struct {
	Method string  `json:"method"`
	Calls  int     `json:"calls"`
	Errors int     `json:"errors"`
	Median float64 `json:"median_seconds"`
	Max    float64 `json:"max_seconds"`
	Sum    float64 `json:"sum_seconds"`
}

// step begins the next step.
func (r *ScenarioReport) step(title string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Steps = append(r.Steps, StepReport{Title: title})
	r.tell(Step{Scenario: r.Name, Title: title})
}

func (r *ScenarioReport) addCall(c CallReport) (step, call int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Steps) == 0 {
		r.Steps = append(r.Steps, StepReport{Title: r.Title})
	}
	s := &r.Steps[len(r.Steps)-1]
	s.Calls = append(s.Calls, c)
	s.Seconds += c.Seconds
	return len(r.Steps) - 1, len(s.Calls) - 1
}

// setState completes the last call, whose effect has been looked at.
func (r *ScenarioReport) setState(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Steps) == 0 {
		return
	}
	calls := r.Steps[len(r.Steps)-1].Calls
	if len(calls) == 0 {
		return
	}
	c := &calls[len(calls)-1]
	c.State = state
	r.tell(*c)
}

func (r *ScenarioReport) problem(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.Problems, text) {
		r.Problems = append(r.Problems, text)
	}
}

func (r *ScenarioReport) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

func (r *ScenarioReport) skip(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.Skips, text) {
		r.Skips = append(r.Skips, text)
	}
}

func (r *ScenarioReport) tell(event any) {
	if r.live != nil {
		r.live(event)
	}
}

// where names the step and the call that a problem was found at.
func (r *ScenarioReport) where() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Steps) == 0 {
		return ""
	}
	s := r.Steps[len(r.Steps)-1]
	if n := len(s.Calls); n > 0 {
		return fmt.Sprintf("%s, %s", s.Title, s.Calls[n-1].Method)
	}
	return s.Title
}

// durations says how long the last call of each method took.
func (r *ScenarioReport) durations() map[string]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]time.Duration{}
	for _, s := range r.Steps {
		for _, c := range s.Calls {
			out[c.Method] = time.Duration(c.Seconds * float64(time.Second))
		}
	}
	return out
}

// A Step is the beginning of a step, for [Options.Progress].
type Step struct{ Scenario, Title string }

// finish sums up.
func (r *Report) finish(began time.Time) {
	r.Seconds = time.Since(began).Seconds()
	r.Outcome = Passed
	times := map[string][]float64{}
	failures := map[string]int{}
	for _, s := range r.Scenarios {
		if s.Outcome == Failed {
			r.Outcome = Failed
		}
		for _, st := range s.Steps {
			for _, c := range st.Calls {
				times[c.Method] = append(times[c.Method], c.Seconds)
				if c.Error != "" {
					failures[c.Method]++
				}
			}
		}
	}
	r.Calls = nil
	for method, list := range times {
		slices.Sort(list)
		m := MethodReport{Method: method, Calls: len(list), Errors: failures[method], Median: list[len(list)/2], Max: list[len(list)-1]}
		for _, t := range list {
			m.Sum += t
		}
		r.Calls = append(r.Calls, m)
	}
	slices.SortFunc(r.Calls, func(a, b MethodReport) int { return strings.Compare(a.Method, b.Method) })
}

// Err is nil when nothing is wrong with the CPI, and otherwise lists what is.
func (r *Report) Err() error {
	var errs []error
	for _, s := range r.Scenarios {
		for _, p := range s.Problems {
			errs = append(errs, fmt.Errorf("%s: %s", s.Name, p))
		}
	}
	return errors.Join(errs...)
}

// WriteJSON writes the report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the report for people. Calls are listed one by one when asked
// for.
func (r *Report) WriteText(w io.Writer, calls bool) error {
	p := &printer{w: w}
	for _, s := range r.Scenarios {
		p.printf("%-8s %-20s %7.2f s  %s\n", mark(s.Outcome), s.Name, s.Seconds, s.Title)
		if s.Why != "" {
			p.printf("           skipped: %s\n", s.Why)
		}
		if calls {
			for _, st := range s.Steps {
				p.printf("         %s (%.0f ms)\n", st.Title, st.Seconds*1000)
				for _, c := range st.Calls {
					p.printf("           %s\n", c)
				}
			}
		}
		for _, text := range s.Problems {
			p.printf("           PROBLEM  %s\n", text)
		}
		for _, text := range s.Skips {
			p.printf("           skipped  %s\n", text)
		}
		for _, text := range s.Notes {
			p.printf("           note     %s\n", text)
		}
	}
	p.printf("\n%-32s %6s %7s %10s %10s\n", "method", "calls", "errors", "median ms", "max ms")
	total := 0
	for _, m := range r.Calls {
		total += m.Calls
		p.printf("%-32s %6d %7d %10.1f %10.1f\n", m.Method, m.Calls, m.Errors, m.Median*1000, m.Max*1000)
	}
	for _, text := range r.Notes {
		p.printf("note: %s\n", text)
	}
	count := map[string]int{}
	steps := 0
	for _, s := range r.Scenarios {
		count[s.Outcome]++
		steps += len(s.Steps)
	}
	p.printf("\nrun %s: %d scenarios passed, %d failed, %d skipped; %d steps, %d calls in %.1f s: %s\n",
		r.Run, count[Passed], count[Failed], count[Skipped], steps, total, r.Seconds, r.Outcome)
	return p.err
}

// String is the call in a line.
func (c CallReport) String() string {
	text := fmt.Sprintf("%8.1f ms  %-18s %s", c.Seconds*1000, c.Method, c.State)
	if c.Error != "" {
		text = fmt.Sprintf("%8.1f ms  %-18s %s", c.Seconds*1000, c.Method, strings.TrimSpace(c.Error+"  "+c.State))
	}
	return strings.TrimRight(text, " ")
}

func mark(outcome string) string {
	if outcome == Failed {
		return "FAILED"
	}
	return outcome
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
