package pve

import (
	"context"

	"github.com/proxkit/proxkit/internal/rest"
)

// WaitTask waits until the task has ended: see [rest.Client.WaitTask].
func (c *Client) WaitTask(ctx context.Context, upid UPID, opts ...rest.WaitOption) (rest.TaskResult, error) {
	return c.rest.WaitTask(ctx, upid, opts...)
}
