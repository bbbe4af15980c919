package pbs

import (
	"context"

	"github.com/proxkit/proxkit/internal/rest"
)

// A ServerVersion is the version of a server, as 4.0.14. Two of them can be compared by
// ==, and ordered by Compare.
type ServerVersion = rest.ServerVersion

// Version asks the server for its version.
func (c *Client) Version(ctx context.Context) (ServerVersion, error) { return c.rest.Version(ctx) }
