package pve

import (
	"context"

	"github.com/proxkit/proxkit/internal/rest"
)

// Meta is what some answers say beside their data.
type Meta = rest.Meta

// WithMeta makes a call and returns its result together with what stands beside the data
// in the answer, such as the length of the list that the result is a part of:
//
//	tasks, meta, err := pve.WithMeta(ctx, client.ListTasks, pve.ListTasksParams{Node: "pve1"})
//
// Where the answer says nothing, the field of [Meta] is zero.
func WithMeta[P, R any](ctx context.Context, method func(context.Context, P) (R, error), p P) (R, Meta, error) {
	ctx, meta := rest.WithMeta(ctx)
	result, err := method(ctx, p)
	return result, meta(), err
}
