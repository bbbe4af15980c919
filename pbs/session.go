package pbs

import (
	"context"

	"github.com/proxkit/proxkit/internal/rest"
)

// A TFAAnswer answers a [TFAChallenge].
type TFAAnswer = rest.TFAAnswer

// Ticket returns the ticket of the client's session, after a login where one is due, so
// that another process can go on with it by [WithTicket]. A client with an API token
// has none.
func (c *Client) Ticket(ctx context.Context) (Ticket, error) { return c.rest.Ticket(ctx) }

// Logout ends the client's session. A later call logs in again, if the client knows
// the password.
func (c *Client) Logout(ctx context.Context) error { return c.rest.Logout(ctx) }
