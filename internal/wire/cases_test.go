package wire_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

// readCase reads a recorded case.
func readCase[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile("testdata/cases/" + name + ".json")
	require.NoError(t, err)
	var c T
	require.NoError(t, json.Unmarshal(text, &c))
	return c
}

// answerCase is an answer and what the fields of its elements have to become.
type answerCase struct {
	Response struct {
		Body json.RawMessage `json:"body"`
	} `json:"response"`
	Expect map[string]json.RawMessage `json:"expect"`
}

// answer decodes the case's answer into a list of T, without a misfit.
func answer[T any](t *testing.T, name string) ([]T, answerCase) {
	t.Helper()
	c := readCase[answerCase](t, name)
	var out struct {
		Data []T `json:"data"`
	}
	require.NoError(t, wire.Decode(c.Response.Body, &out, func(m wire.Misfit) { t.Error(m) }))
	return out.Data, c
}

// column compares one field of all elements with what the case expects.
func column[T, V any](t *testing.T, c answerCase, name string, list []T, field func(T) V) {
	t.Helper()
	got := []V{}
	for _, item := range list {
		got = append(got, field(item))
	}
	text, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, string(c.Expect[name]), string(text), name)
}

// decimal writes a number as text, which JSON readers leave alone.
func decimal(n *uint64) *string {
	if n == nil {
		return nil
	}
	return new(strconv.FormatUint(*n, 10))
}

func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	t.Run("storage totals", func(t *testing.T) {
		t.Parallel()
		type storage struct {
			Active  *bool   `json:"active,omitempty"`
			Enabled *bool   `json:"enabled,omitempty"`
			Total   *uint64 `json:"total,omitempty"`
			Used    *uint64 `json:"used,omitempty"`
		}
		list, c := answer[storage](t, "storage-totals")
		column(t, c, "total", list, func(s storage) *string { return decimal(s.Total) })
		column(t, c, "used", list, func(s storage) *string { return decimal(s.Used) })
		column(t, c, "active", list, func(s storage) bool { return *s.Active })
		column(t, c, "enabled", list, func(s storage) bool { return *s.Enabled })
	})
	t.Run("guests of several versions", func(t *testing.T) {
		t.Parallel()
		type guest struct {
			VMID     int64    `json:"vmid"`
			PID      *int64   `json:"pid,omitempty"`
			MaxMem   *uint64  `json:"maxmem,omitempty"`
			Tags     []string `json:"tags,omitempty" px:"list"`
			Template *bool    `json:"template,omitempty"`
			Lock     *string  `json:"lock,omitempty"`
		}
		list, c := answer[guest](t, "guest-list-mixed")
		column(t, c, "vmid", list, func(g guest) int64 { return g.VMID })
		column(t, c, "pid", list, func(g guest) *int64 { return g.PID })
		column(t, c, "maxmem", list, func(g guest) *string { return decimal(g.MaxMem) })
		column(t, c, "tags", list, func(g guest) []string { return append([]string{}, g.Tags...) })
		column(t, c, "template", list, func(g guest) bool { return orZero(g.Template) })
		column(t, c, "lock", list, func(g guest) *string { return g.Lock })
	})
	t.Run("containers with a CPU limit", func(t *testing.T) {
		t.Parallel()
		type container struct {
			VMID    int64    `json:"vmid"`
			CPUs    *float64 `json:"cpus,omitempty"`
			Disk    *uint64  `json:"disk,omitempty"`
			MaxDisk *uint64  `json:"maxdisk,omitempty"`
		}
		list, c := answer[container](t, "lxc-list-cpus-string")
		column(t, c, "vmid", list, func(g container) int64 { return g.VMID })
		column(t, c, "cpus", list, func(g container) *float64 { return g.CPUs })
		column(t, c, "disk", list, func(g container) *uint64 { return g.Disk })
		column(t, c, "maxdisk", list, func(g container) *uint64 { return g.MaxDisk })
	})
	t.Run("volumes", func(t *testing.T) {
		t.Parallel()
		type volume struct {
			VolID string `json:"volid"`
			Size  *int64 `json:"size,omitempty"`
			VMID  *int64 `json:"vmid,omitempty"`
		}
		list, c := answer[volume](t, "storage-content-sizes")
		column(t, c, "size", list, func(v volume) *int64 { return v.Size })
		column(t, c, "vmid", list, func(v volume) *int64 { return v.VMID })
		column(t, c, "path_escaped", list, func(v volume) string {
			path, used, err := wire.Path("/nodes/{node}/storage/local/content/{volume}", map[string]any{"node": "pve1", "volume": v.VolID})
			require.NoError(t, err)
			assert.Equal(t, []string{"node", "volume"}, used)
			return strings.TrimPrefix(path, "/nodes/pve1/storage/local/content/")
		})
	})
	t.Run("the next free ID", func(t *testing.T) {
		t.Parallel()
		c := readCase[struct {
			Cases []answerCase `json:"cases"`
		}](t, "nextid")
		ids := 0
		for _, c := range c.Cases {
			if c.Expect["id"] == nil {
				continue
			}
			ids++
			var out struct {
				Data int64 `json:"data"`
			}
			require.NoError(t, wire.Decode(c.Response.Body, &out, func(m wire.Misfit) { t.Error(m) }))
			assert.JSONEq(t, string(c.Expect["id"]), strconv.FormatInt(out.Data, 10))
		}
		assert.Equal(t, 2, ids)
	})
}

// anyParams has every parameter of the recorded requests, each of the type that its
// API description gives it.
type anyParams struct {
	Command     []string `json:"command,omitempty"`
	Delete      []string `json:"delete,omitempty" px:"list"`
	Description *string  `json:"description,omitempty"`
	Errors      *bool    `json:"errors,omitempty"`
	Force       *bool    `json:"force,omitempty"`
	Limit       *int64   `json:"limit,omitempty"`
	Memory      *int64   `json:"memory,omitempty"`
	OnBoot      *bool    `json:"onboot,omitempty"`
	PrivSep     *bool    `json:"privsep,omitempty"`
	Protection  *bool    `json:"protection,omitempty"`
	Purge       *bool    `json:"purge,omitempty"`
	Since       *int64   `json:"since,omitempty"`
	SSHKeys     []string `json:"sshkeys,omitempty" px:"sshkeys"`
	SSHPublic   *string  `json:"ssh-public-keys,omitempty"`
	VMID        *int64   `json:"vmid,omitempty"`

	Node   string `json:"node,omitempty"`
	Volume string `json:"volume,omitempty"`
}

func TestRecordedRequests(t *testing.T) {
	t.Parallel()
	c := readCase[struct {
		Cases []struct {
			Call struct {
				Path       string          `json:"path"`
				Params     json.RawMessage `json:"params"`
				PathParams json.RawMessage `json:"path_params"`
			} `json:"call"`
			Expect struct {
				Form    *string `json:"form"`
				Query   *string `json:"query"`
				RawPath *string `json:"raw_path"`
				Error   bool    `json:"error_before_sending"`
			} `json:"expect"`
		} `json:"cases"`
	}](t, "request-encoding")
	require.Len(t, c.Cases, 10)
	for _, tc := range c.Cases {
		if tc.Call.PathParams != nil {
			var params anyParams
			require.NoError(t, json.Unmarshal(tc.Call.PathParams, &params))
			path, _, err := wire.Path(tc.Call.Path, &params)
			if tc.Expect.Error {
				assert.Error(t, err)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, *tc.Expect.RawPath, path)
			continue
		}
		want := tc.Expect.Form
		if want == nil {
			want = tc.Expect.Query
		}
		decoder := json.NewDecoder(strings.NewReader(string(tc.Call.Params)))
		decoder.DisallowUnknownFields()
		var params anyParams
		require.NoError(t, decoder.Decode(&params))
		got, err := wire.EncodeForm(&params, nil)
		require.NoError(t, err)
		assert.Equal(t, *want, got)
	}
}
