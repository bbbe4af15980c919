package pve

import (
	"context"
	"sync"
)

// Turns lets callers take turns by name: at most so many at a time for each name. The
// server has one lock for each guest and for each storage, and refuses who has waited for
// it a few seconds; a program that works in parallel does better to queue by itself:
//
//	turns := pve.NewTurns(1)
//	done, err := turns.Take(ctx, "storage/local-lvm")
//	if err != nil {
//		return err
//	}
//	defer done()
//
// Turns hold among the callers of one process that share them.
type Turns struct {
	width int
	mu    sync.Mutex
	names map[string]*turn
}

type turn struct {
	places chan struct{}
	users  int // those inside and those waiting
}

// NewTurns returns turns for width callers at a time for each name, at least one.
func NewTurns(width int) *Turns {
	return &Turns{width: max(width, 1), names: map[string]*turn{}}
}

// Take waits for a turn until ctx ends. The function it returns gives the turn back and
// must be called, once or more.
func (t *Turns) Take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	this := t.names[name]
	if this == nil {
		this = &turn{places: make(chan struct{}, t.width)}
		t.names[name] = this
	}
	this.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if this.users--; this.users == 0 {
			delete(t.names, name)
		}
	}
	select {
	case this.places <- struct{}{}:
		return sync.OnceFunc(func() {
			<-this.places
			leave()
		}), nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
