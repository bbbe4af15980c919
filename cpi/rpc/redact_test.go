package rpc_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxkit/proxkit/cpi/rpc"
)

func TestRedactor(t *testing.T) {
	t.Parallel()
	const secret = "p@ss/w\"rd & more+<x>"
	quoted, _ := json.Marshal(secret)
	var r rpc.Redactor
	r.Add(secret, "https://mbus:url-password@0.0.0.0:6868", "abc", "", "longer-than-abcd", "abcd")
	for name, text := range map[string]string{
		"plain":           secret,
		"query":           url.QueryEscape(secret),
		"path":            url.PathEscape(secret),
		"user":            url.UserPassword("u", secret).String(),
		"JSON":            string(quoted),
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"password of URL": "url-password",
		"whole URL":       "https://mbus:url-password@0.0.0.0:6868",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.Mask("before " + text + " after")
			assert.Contains(t, got, "<redacted>")
			assert.NotContains(t, got, "w\"rd")
			assert.NotContains(t, got, "password@")
			assert.NotContains(t, got, text)
		})
	}
	assert.Equal(t, "before abc after", r.Mask("before abc after"), "what is too short to be a secret stays readable")
	assert.Equal(t, "<redacted>", r.Mask("longer-than-abcd"), "the longer secret goes as a whole")
}

func TestLeaves(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"a":{"b":["secret-1",{"c":"secret-2"}],"skip":{"x":"public"}},"n":5,"short":"abc","d":"secret-1"}`)
	assert.Equal(t, []string{"secret-1", "secret-2"}, rpc.Leaves(raw, "a.skip"))
	assert.Empty(t, rpc.Leaves(json.RawMessage(`{`)))
	assert.Empty(t, rpc.Leaves(nil))
}
