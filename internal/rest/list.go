package rest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"sync/atomic"
)

// defaultPage is how many items All asks for at a time.
const defaultPage = 500

// All walks through a list that the server gives in pages, by the method for one page:
//
//	for task, err := range rest.All(ctx, client.ListTasks, pve.ListTasksParams{Node: "pve1"}) {
//
// p must have the fields Start and Limit. Start says where to begin, Limit how much to
// ask for at a time. Pages are asked for when they are needed and never ahead. After an
// error, which comes with the zero item, the walk is over. Where the server tells the
// length of the whole list, no page is asked for behind its end.
//
// A list that grows at its front while it is walked through, such as that of tasks, may
// show an item twice.
func All[P, T any](ctx context.Context, list func(context.Context, P) ([]T, error), p P) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		page := p // the caller's parameters stay as they are
		start, limit, err := pageFields(&page)
		if err != nil {
			yield(*new(T), err)
			return
		}
		next, size := int64(0), int64(defaultPage)
		if *start != nil {
			next = **start
		}
		if *limit != nil && **limit > 0 {
			size = **limit
		}
		ctx, meta := WithMeta(ctx)
		for {
			*start, *limit = new(next), new(size)
			items, err := list(ctx, page)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			next += int64(len(items))
			// Without a total, a short page is the last one. With one, it may also be that
			// the server gives fewer at a time than it was asked for.
			total := meta().Total
			if len(items) == 0 || total > 0 && next >= total || total == 0 && int64(len(items)) < size {
				return
			}
		}
	}
}

// pageFields finds the fields Start and Limit of the struct that p points to.
func pageFields(p any) (start, limit **int64, err error) {
	v := reflect.ValueOf(p).Elem()
	if v.Kind() != reflect.Struct {
		return nil, nil, fmt.Errorf("%s is no structure of parameters", v.Type())
	}
	found := [2]**int64{}
	for i, name := range [...]string{"Start", "Limit"} {
		field := v.FieldByName(name)
		if !field.IsValid() || field.Type() != reflect.TypeFor[*int64]() {
			return nil, nil, fmt.Errorf("%s has no %s: this list does not come in pages", v.Type(), name)
		}
		found[i], _ = field.Addr().Interface().(**int64)
	}
	return found[0], found[1], nil
}

type metaKey struct{}

// metaNote is where calls note what stands beside the data of their answers, there and
// in the notes of the contexts around.
type metaNote struct {
	last  atomic.Pointer[Meta]
	outer *metaNote
}

// WithMeta returns a context whose calls also note what stands beside the data of their
// answers, and a function that tells what the last of them noted.
func WithMeta(ctx context.Context) (context.Context, func() Meta) {
	outer, _ := ctx.Value(metaKey{}).(*metaNote)
	note := &metaNote{outer: outer}
	return context.WithValue(ctx, metaKey{}, note), func() Meta {
		if m := note.last.Load(); m != nil {
			return *m
		}
		return Meta{}
	}
}

func noteMeta(ctx context.Context, m Meta) {
	note, _ := ctx.Value(metaKey{}).(*metaNote)
	for ; note != nil; note = note.outer {
		note.last.Store(&m)
	}
}
