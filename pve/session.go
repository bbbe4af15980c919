package pve

import (
	"context"

	"github.com/proxkit/proxkit/internal/rest"
)

type (
	// A TFAAnswer answers a [TFAChallenge].
	TFAAnswer = rest.TFAAnswer

	// A FingerprintError tells that the server's certificate is not the one that
	// [WithFingerprint] pins, and which it is.
	FingerprintError = rest.FingerprintError

	// An AnswerError tells that a call succeeded but its answer could not be read.
	AnswerError = rest.AnswerError
)

// WithSafeWrites names the writes that may be sent twice, because repeating them
// changes nothing. They are then retried like reads: see [RetryPolicy]. The path is the
// one called, as "/nodes/pve1/qemu/100/config".
func WithSafeWrites(safe func(method, path string) bool) Option { return rest.WithSafeWrites(safe) }

// Ticket returns the ticket of the client's session, after a login where one is due, so
// that another process can go on with it by [WithTicket]. A client with an API token
// has none.
func (c *Client) Ticket(ctx context.Context) (Ticket, error) { return c.rest.Ticket(ctx) }

// Logout ends the client's session. Proxmox VE cannot revoke tickets: the session is only
// forgotten. A later call logs in again, if the client knows
// the password.
func (c *Client) Logout(ctx context.Context) error { return c.rest.Logout(ctx) }
