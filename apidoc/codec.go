package apidoc

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Encode writes d in its canonical form: JSON, indented by one space, operations
// by path and method, members of objects by name. Equal documents give equal
// bytes. It sorts d.Operations.
func (d *Document) Encode(w io.Writer) error {
	d.Sort()
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("apidoc: encode: %w", err)
	}
	return b.Flush()
}

// Decode reads what [Document.Encode] wrote. A field it does not know, a
// missing schema or a doubled operation is an error. Every operation of the
// result has Parameters and Returns, if only empty ones.
func Decode(r io.Reader) (*Document, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	d := new(Document)
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("apidoc: decode: %w", err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("apidoc: decode: %w", err)
	}
	return d, nil
}

// Sort brings the operations into the order that Encode and Find expect.
func (d *Document) Sort() {
	slices.SortStableFunc(d.Operations, func(a, b *Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
}

// Find returns the operation of method and path template, such as GET and
// "/nodes/{node}/qemu", or nil. The operations must be sorted, as they are in a
// document from Decode or Load.
func (d *Document) Find(method, path string) *Operation {
	i, ok := slices.BinarySearchFunc(d.Operations, path, func(o *Operation, path string) int {
		return cmp.Or(strings.Compare(o.Path, path), strings.Compare(o.Method, method))
	})
	if !ok {
		return nil
	}
	return d.Operations[i]
}

func (d *Document) check() error {
	if d.Dialect != "perl" && d.Dialect != "rust" {
		return fmt.Errorf("dialect is %q, want perl or rust", d.Dialect)
	}
	if len(d.Operations) == 0 {
		return errors.New("no operations")
	}
	for i, op := range d.Operations {
		if op == nil {
			return fmt.Errorf("operation %d is null", i)
		}
		if !strings.HasPrefix(op.Path, "/") || op.Method == "" {
			return fmt.Errorf("operation %d: method %q, path %q", i, op.Method, op.Path)
		}
		if op.Parameters == nil {
			op.Parameters = &Schema{Type: "object"}
		}
		if op.Returns == nil {
			op.Returns = new(Schema)
		}
		where := op.Path + " " + op.Method
		if err := op.Parameters.check(where + " parameters"); err != nil {
			return err
		}
		if err := op.Returns.check(where + " returns"); err != nil {
			return err
		}
		if op.Permissions != nil && op.Permissions.Check != nil {
			if err := op.Permissions.Check.check(where + " permissions"); err != nil {
				return err
			}
		}
	}
	d.Sort()
	for i := 1; i < len(d.Operations); i++ {
		a, b := d.Operations[i-1], d.Operations[i]
		if a.Path == b.Path && a.Method == b.Method {
			return fmt.Errorf("%s %s appears twice", a.Path, a.Method)
		}
	}
	return nil
}

func (s *Schema) check(where string) error {
	if s == nil {
		return fmt.Errorf("%s is null", where)
	}
	for name, sub := range s.Properties {
		if sub == nil {
			return fmt.Errorf("%s.%s is null", where, name)
		}
	}
	for sub, step := range s.Children() {
		if err := sub.check(where + step); err != nil {
			return err
		}
	}
	return nil
}

func (c *Check) check(where string) error {
	for _, sub := range c.Checks {
		if sub == nil {
			return fmt.Errorf("%s: a check is null", where)
		}
		if err := sub.check(where); err != nil {
			return err
		}
	}
	return nil
}
