package wire_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// vmNet is a property string as the generator writes them.
type vmNet struct {
	Model    string            `json:"model" px:"default,keyalias=macaddr"`
	Bridge   *string           `json:"bridge,omitempty"`
	Firewall *bool             `json:"firewall,omitempty"`
	LinkDown *bool             `json:"link_down,omitempty"`
	MACAddr  *string           `json:"macaddr,omitempty"`
	MTU      *int64            `json:"mtu,omitempty"`
	Rate     *float64          `json:"rate,omitempty"`
	Tag      *int64            `json:"tag,omitempty"`
	Trunks   []string          `json:"trunks,omitempty" px:"list=;"`
	Extra    map[string]string `json:"-" px:"extra"`

	raw string
}

func (n vmNet) String() string               { return wire.FormatProps(n, n.raw) }
func (n vmNet) MarshalText() ([]byte, error) { return wire.MarshalProps(n, n.raw) }
func (n *vmNet) UnmarshalText(b []byte) error {
	err := wire.ParseProps(string(b), n)
	n.raw = string(b)
	return err
}

func parseNet(text string) (vmNet, error) {
	var n vmNet
	err := n.UnmarshalText([]byte(text))
	return n, err
}

// vmDisk has a default key that is a volume.
type vmDisk struct {
	File     string            `json:"file" px:"default,alias=volume"`
	Backup   *bool             `json:"backup,omitempty"`
	Discard  *string           `json:"discard,omitempty"`
	IOThread *bool             `json:"iothread,omitempty"`
	Media    *string           `json:"media,omitempty"`
	Serial   *string           `json:"serial,omitempty"`
	Size     *string           `json:"size,omitempty"`
	Extra    map[string]string `json:"-" px:"extra"`

	raw string
}

func (d vmDisk) String() string               { return wire.FormatProps(d, d.raw) }
func (d vmDisk) MarshalText() ([]byte, error) { return wire.MarshalProps(d, d.raw) }
func (d *vmDisk) UnmarshalText(b []byte) error {
	err := wire.ParseProps(string(b), d)
	d.raw = string(b)
	return err
}

// upper is text that refuses what is not in capitals.
type upper string

func (u upper) MarshalText() ([]byte, error) { return []byte(u), nil }
func (u *upper) UnmarshalText(b []byte) error {
	if strings.ToUpper(string(b)) != string(b) {
		return errors.New("not in capitals")
	}
	*u = upper(b)
	return nil
}

// texts is what a test compares misfits by.
func texts(misfits []wire.Misfit) []string {
	var list []string
	for _, m := range misfits {
		list = append(list, fmt.Sprint(m))
	}
	return list
}
