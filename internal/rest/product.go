package rest

import (
	"fmt"

	"github.com/proxkit/proxkit/internal/wire"
)

// A Product says how one Proxmox product differs from the others on the wire. The
// zero value of a field stands for what Proxmox VE does.
type Product struct {
	// Name begins every error text and names the product to the user, as "pve".
	Name string

	// Dialect is "perl" (forms, booleans 1 and 0) or "rust" (JSON, true and false).
	Dialect string

	// DefaultPort is used for endpoints given as a bare host name.
	DefaultPort int

	// BasePath stands before every path of the API, "/api2/json" unless set.
	BasePath string

	// TokenScheme and TokenSeparator make the header
	// "Authorization: <scheme>=<user>@<realm>!<name><separator><secret>".
	TokenScheme    string
	TokenSeparator string

	// CookieName carries the ticket of a login.
	CookieName string

	// CSRFHeader accompanies the writes of a login.
	CSRFHeader string

	// TicketPath is where logins go, "/access/ticket" unless set.
	TicketPath string

	// Version is the release whose API the package describes, as "9.2", and Since says
	// what came after the oldest release known: see [SinceIn]. They explain why a
	// server does not know a call, and may be empty.
	Version string
	Since   string
}

// withDefaults fills the fields left empty.
func (p Product) withDefaults() (Product, error) {
	for _, field := range []struct {
		value *string
		unset string
	}{
		{&p.Name, "pve"},
		{&p.Dialect, string(wire.Perl)},
		{&p.BasePath, "/api2/json"},
		{&p.TokenScheme, "PVEAPIToken"},
		{&p.TokenSeparator, "="},
		{&p.CookieName, "PVEAuthCookie"},
		{&p.CSRFHeader, "CSRFPreventionToken"},
		{&p.TicketPath, "/access/ticket"},
	} {
		if *field.value == "" {
			*field.value = field.unset
		}
	}
	if p.DefaultPort == 0 {
		p.DefaultPort = 8006
	}
	if p.Dialect != string(wire.Perl) && p.Dialect != string(wire.Rust) {
		return p, fmt.Errorf("%s: product dialect %q is neither perl nor rust", p.Name, p.Dialect)
	}
	return p, nil
}

func (p Product) perl() bool { return p.Dialect == string(wire.Perl) }
