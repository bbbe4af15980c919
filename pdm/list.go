package pdm

import (
	"context"
	"iter"

	"github.com/proxkit/proxkit/internal/rest"
)

// All walks through a list that the server gives in pages, by the method for one page:
//
//	for task, err := range pdm.All(ctx, client.ListRemoteTasks, pdm.ListRemoteTasksParams{}) {
//
// The parameters must have the fields Start and Limit: Start says where to begin, Limit
// how much to ask for at a time. Pages are asked for when they are needed and never
// ahead. After an error, which comes with the zero item, the walk is over.
//
// A list that grows at its front while it is walked through, such as that of tasks, may
// show an item twice.
func All[P, T any](ctx context.Context, list func(context.Context, P) ([]T, error), p P) iter.Seq2[T, error] {
	return rest.All(ctx, list, p)
}

// Meta is what some answers say beside their data.
type Meta = rest.Meta

// WithMeta returns a context whose calls also note what stands beside the data of their
// answers, such as the length of the whole list, and a function that tells what the last
// of them noted.
func WithMeta(ctx context.Context) (context.Context, func() Meta) { return rest.WithMeta(ctx) }
