package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Networks are the networks of a VM in the order in which the Director sent
// them. They encode as the JSON object they came from.
type Networks []Network

// A Network is one network of a VM. Encoding it gives every key it was read
// from, in order, with what [Network.Set] changed.
type Network struct {
	Name string
	// Type is "manual", "dynamic" or "vip".
	Type    string
	IP      string
	Netmask string
	Gateway string
	DNS     []string
	Default []string
	// NICGroup, when not empty, names the NIC that the network shares with the
	// other networks of the group.
	NICGroup string
	// CloudProperties is a JSON object, never empty.
	CloudProperties json.RawMessage

	fields []field
}

type field struct {
	key   string
	value json.RawMessage
}

// Set gives the network the key with the value's JSON encoding, in place of what
// it had there or at the end.
func (n *Network) Set(key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("network %s: %s: %w", n.Name, key, err)
	}
	// The fields may be shared with a copy of the network.
	n.fields = append([]field(nil), n.fields...)
	for i := range n.fields {
		if n.fields[i].key == key {
			n.fields[i].value = raw
			return nil
		}
	}
	n.fields = append(n.fields, field{key, raw})
	return nil
}

// Get returns the value of a key as it was sent or set, or nil.
func (n *Network) Get(key string) json.RawMessage {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (n Network) MarshalJSON() ([]byte, error) { return marshalFields(n.fields) }

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Network) UnmarshalJSON(data []byte) error {
	fields, err := unmarshalFields(data)
	if err != nil {
		return err
	}
	*n = Network{Name: n.Name, fields: fields}
	for key, target := range map[string]any{
		"type": &n.Type, "ip": &n.IP, "netmask": &n.Netmask, "gateway": &n.Gateway,
		"dns": &n.DNS, "default": &n.Default, "nic_group": &n.NICGroup,
	} {
		raw := n.Get(key)
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, target); err != nil {
			want := kindString
			if key == "dns" || key == "default" {
				want = "an array of strings"
			}
			return fmt.Errorf("%q must be %s, not %s", key, want, kindOf(raw))
		}
	}
	switch raw := n.Get("cloud_properties"); kindOf(raw) {
	case "", kindNull:
		n.CloudProperties = json.RawMessage("{}")
	case kindObject:
		n.CloudProperties = raw
	default:
		return fmt.Errorf(`"cloud_properties" must be an object, not %s`, kindOf(raw))
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (ns Networks) MarshalJSON() ([]byte, error) {
	fields := make([]field, 0, len(ns))
	for _, n := range ns {
		raw, err := n.MarshalJSON()
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{n.Name, raw})
	}
	return marshalFields(fields)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (ns *Networks) UnmarshalJSON(data []byte) error {
	fields, err := unmarshalFields(data)
	if err != nil {
		return err
	}
	*ns = make(Networks, 0, len(fields))
	for _, f := range fields {
		n := Network{Name: f.key}
		if kind := kindOf(f.value); kind != kindObject {
			return fmt.Errorf("network %q must be an object, not %s", f.key, kind)
		}
		if err := n.UnmarshalJSON(f.value); err != nil {
			return fmt.Errorf("network %q: %w", f.key, err)
		}
		*ns = append(*ns, n)
	}
	return nil
}

func marshalFields(fields []field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// unmarshalFields reads a JSON object in order. A key that comes twice keeps its
// first place and its last value.
func unmarshalFields(data []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("expected an object")
	}
	var fields []field
	at := map[string]int{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var f field
		f.key, _ = key.(string)
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		if i, ok := at[f.key]; ok {
			fields[i] = f
			continue
		}
		at[f.key] = len(fields)
		fields = append(fields, f)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return fields, nil
}
