package rest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files in testdata/cases were built from public bug reports about Proxmox clients.

type caseAnswer struct {
	Status   int               `json:"status"`
	Reason   string            `json:"reason"`
	Headers  map[string]string `json:"headers"`
	Body     json.RawMessage   `json:"body"`
	BodyText string            `json:"bodyText"`
}

func (a caseAnswer) text() string {
	if a.Body != nil {
		return reply(a.Status, a.Reason, jsonType, string(a.Body))
	}
	return reply(a.Status, a.Reason, a.Headers["Content-Type"], a.BodyText)
}

type caseRequest struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Form    string            `json:"form"`
	Headers map[string]string `json:"headers"`
}

// call makes the request of a case and returns its error.
func (r caseRequest) call(t *testing.T, answer string, out any) ([]seen, error) {
	t.Helper()
	server := newRawServer(t, func(seen) string { return answer })
	client := newClient(t, server.URL)
	path, query, _ := strings.Cut(strings.TrimPrefix(r.Path, "/api2/json"), "?")
	params := map[string]string{}
	values, err := url.ParseQuery(cmpOr(query, r.Form))
	require.NoError(t, err)
	for name := range values {
		params[name] = values.Get(name)
	}
	var given any
	if len(params) > 0 {
		given = params
	}
	err = client.Call(t.Context(), r.Method, path, given, out)
	return server.Requests(), err
}

// kinds translates the words of the cases.
func kinds() map[string]error {
	return map[string]error{
		"forbidden":         ErrPermission,
		"locked":            ErrLocked,
		"not_found":         ErrNotFound,
		"invalid_parameter": ErrInvalidParameter,
		"already_exists":    ErrExists,
		"node_unreachable":  ErrNodeUnreachable,
		"proxy_error":       ErrProxy,
		"not_implemented":   ErrNotImplemented,
		"not_an_api":        ErrNotAPI,
		"tfa_required":      ErrTFARequired,
	}
}

type caseRefusal struct {
	Request  caseRequest `json:"request"`
	Response caseAnswer  `json:"response"`
	Expect   struct {
		Kind      string            `json:"kind"`
		AlsoKind  string            `json:"also_kind"`
		Message   string            `json:"message"`
		Lock      string            `json:"lock"`
		Hint      string            `json:"hint"`
		Retryable *bool             `json:"retryable"`
		Params    map[string]string `json:"params"`
		ID        *int64            `json:"id"`
	} `json:"expect"`
}

func (c caseRefusal) run(t *testing.T) {
	t.Helper()
	requests, err := c.Request.call(t, c.Response.text(), nil)
	refusal, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%v", err)
	if want, ok := kinds()[c.Expect.Kind]; ok {
		assert.ErrorIs(t, err, want)
	} else {
		require.Equal(t, "bad_request", c.Expect.Kind)
		assert.Equal(t, http.StatusBadRequest, refusal.Status)
	}
	if c.Expect.AlsoKind != "" {
		assert.ErrorIs(t, err, kinds()[c.Expect.AlsoKind])
	}
	if c.Expect.Message != "" {
		assert.Equal(t, c.Expect.Message, refusal.Message)
		assert.Contains(t, err.Error(), c.Expect.Message)
	}
	assert.Equal(t, c.Response.Reason, refusal.Reason)
	assert.Equal(t, c.Expect.Lock, refusal.Lock())
	if c.Expect.Hint != "" {
		assert.Contains(t, err.Error(), "check the node's name")
	}
	if c.Expect.Retryable != nil {
		assert.Equal(t, *c.Expect.Retryable, IsRetryable(err), "%v", err)
	}
	if c.Expect.Params != nil {
		assert.Equal(t, c.Expect.Params, refusal.Params)
	}
	if c.Request.Method != http.MethodGet {
		assert.Len(t, requests, 1, "a write is sent once")
	}
}

func TestCaseRefusals(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"f7-error-in-reason-phrase", "f11-bodyless-errors"} {
		var cases struct {
			Cases []caseRefusal `json:"cases"`
		}
		readCase(t, file, &cases)
		require.NotEmpty(t, cases.Cases)
		for _, c := range cases.Cases {
			t.Run(file+" "+c.Request.Method+" "+c.Request.Path, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	}
	t.Run("f9-parameter-errors", func(t *testing.T) {
		t.Parallel()
		var c caseRefusal
		readCase(t, "f9-parameter-errors", &c)
		c.run(t)
	})
}

func TestCaseNextID(t *testing.T) {
	t.Parallel()
	var cases struct {
		Cases []caseRefusal `json:"cases"`
	}
	readCase(t, "f17-nextid", &cases)
	for i, c := range cases.Cases {
		if c.Expect.ID == nil {
			c.run(t)
			continue
		}
		var id int64
		_, err := c.Request.call(t, c.Response.text(), &id)
		require.NoError(t, err, "case %d", i)
		assert.Equal(t, *c.Expect.ID, id)
	}
}

func TestCaseStorageTotals(t *testing.T) {
	t.Parallel()
	var c struct {
		Request  caseRequest `json:"request"`
		Response caseAnswer  `json:"response"`
	}
	readCase(t, "f1-storage-totals", &c)
	var storages []struct {
		Storage string  `json:"storage"`
		Total   uint64  `json:"total"`
		Used    *uint64 `json:"used"`
		Enabled bool    `json:"enabled"`
		Active  bool    `json:"active"`
	}
	_, err := c.Request.call(t, c.Response.text(), &storages)
	require.NoError(t, err)
	require.Len(t, storages, 3)
	assert.Equal(t, []uint64{1125899906842620, 18446744073692774400, 3477266734514180},
		[]uint64{storages[0].Total, storages[1].Total, storages[2].Total})
	assert.Equal(t, uint64(4096), *storages[1].Used)
	assert.Nil(t, storages[2].Used)
	assert.Equal(t, []bool{true, true, false}, []bool{storages[0].Active, storages[1].Active, storages[2].Active})
}

func TestCaseRequestEncoding(t *testing.T) {
	t.Parallel()
	var cases struct {
		Cases []struct {
			Call struct {
				Method     string            `json:"method"`
				Path       string            `json:"path"`
				Params     json.RawMessage   `json:"params"`
				PathParams map[string]string `json:"path_params"`
			} `json:"call"`
			Expect struct {
				Form        *string `json:"form"`
				ContentType string  `json:"content_type"`
				Query       *string `json:"query"`
				BodyLength  *int    `json:"body_length"`
				RawPath     string  `json:"raw_path"`
				Refused     bool    `json:"error_before_sending"`
			} `json:"expect"`
		} `json:"cases"`
	}
	readCase(t, "f20-request-encoding", &cases)
	// The parameters as a generated struct would declare them.
	type params struct {
		Node         string   `json:"node,omitempty"`
		Volume       string   `json:"volume,omitempty"`
		OnBoot       *bool    `json:"onboot,omitempty"`
		Protection   *bool    `json:"protection,omitempty"`
		Purge        *bool    `json:"purge,omitempty"`
		Force        *bool    `json:"force,omitempty"`
		Errors       *bool    `json:"errors,omitempty"`
		PrivSep      *bool    `json:"privsep,omitempty"`
		Memory       *int64   `json:"memory,omitempty"`
		Since        *int64   `json:"since,omitempty"`
		Limit        *int64   `json:"limit,omitempty"`
		VMID         *int64   `json:"vmid,omitempty"`
		Description  *string  `json:"description,omitempty"`
		SSHPublicKey *string  `json:"ssh-public-keys,omitempty"`
		Delete       []string `json:"delete,omitempty" px:"list"`
		SSHKeys      []string `json:"sshkeys,omitempty" px:"sshkeys"`
		Command      []string `json:"command,omitempty"`
	}
	for _, c := range cases.Cases {
		t.Run(c.Call.Method+" "+c.Call.Path+" "+string(c.Call.Params), func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return replyData("null") })
			client := newClient(t, server.URL)
			p := params{Node: c.Call.PathParams["node"], Volume: c.Call.PathParams["volume"]}
			if c.Call.Params != nil {
				require.NoError(t, json.Unmarshal(c.Call.Params, &p))
			}
			err := client.Call(t.Context(), c.Call.Method, strings.TrimPrefix(c.Call.Path, "/api2/json"), &p, nil)
			if c.Expect.Refused {
				assert.ErrorIs(t, err, ErrInvalidParameter)
				assert.Empty(t, server.Requests())
				return
			}
			require.NoError(t, err)
			require.Len(t, server.Requests(), 1)
			got := server.Requests()[0]
			path, query, _ := strings.Cut(got.Target, "?")
			if c.Expect.Form != nil {
				assert.Equal(t, *c.Expect.Form, got.Body)
				assert.Equal(t, "application/x-www-form-urlencoded", got.Header.Get("Content-Type"))
				assert.Equal(t, int64(len(got.Body)), got.Length)
			}
			if c.Expect.Query != nil {
				assert.Equal(t, *c.Expect.Query, query)
			}
			if c.Expect.BodyLength != nil {
				assert.Empty(t, got.Body)
				assert.Equal(t, int64(-1), got.Length, "no Content-Length")
			}
			if c.Expect.RawPath != "" {
				assert.Equal(t, c.Expect.RawPath, path)
			}
			assert.False(t, got.Chunks)
		})
	}
}

func TestCaseUpload(t *testing.T) {
	t.Parallel()
	var c struct {
		Request struct {
			Path  string `json:"path"`
			Parts []struct {
				Name        string `json:"name"`
				Value       string `json:"value"`
				Filename    string `json:"filename"`
				ContentType string `json:"content_type"`
				Bytes       string `json:"bytes_base64"`
			} `json:"parts_in_order"`
		} `json:"request"`
		Response caseAnswer `json:"response"`
		Expect   struct {
			Type    string              `json:"upid_type"`
			Refused []map[string]string `json:"refused_before_sending"`
		} `json:"expect"`
	}
	readCase(t, "f10-upload-multipart", &c)
	server := newRawServer(t, func(seen) string { return c.Response.text() })
	client := newClient(t, server.URL)
	type params struct {
		Node     string  `json:"node"`
		Storage  string  `json:"storage"`
		Content  string  `json:"content"`
		Filename string  `json:"filename"`
		Checksum *string `json:"checksum,omitempty"`
		Method   *string `json:"checksum-algorithm,omitempty"`
	}
	const path = "/nodes/{node}/storage/{storage}/upload"
	good := params{Node: "pve1", Storage: "local", Content: "iso", Filename: "tiny.iso"}
	for _, bad := range c.Expect.Refused {
		p := good
		for name := range bad {
			switch name {
			case "node":
				p.Node = ""
			case "storage":
				p.Storage = ""
			case "filename":
				p.Filename = ""
			}
		}
		err := client.Upload(t.Context(), http.MethodPost, path, &p, Upload{Body: strings.NewReader("test")}, nil)
		assert.ErrorIs(t, err, ErrInvalidParameter, "%v", bad)
	}
	require.Empty(t, server.Requests())

	for name, upload := range map[string]Upload{
		"checksum computed": {Body: strings.NewReader("test"), Checksum: "sha256"},
		"size unknown":      {Body: onlyReader{strings.NewReader("test")}, Checksum: "sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			var upid UPID
			before := len(server.Requests())
			require.NoError(t, client.Upload(t.Context(), http.MethodPost, path, &good, upload, &upid))
			info, err := upid.Parse()
			require.NoError(t, err)
			assert.Equal(t, c.Expect.Type, info.Type)
			assert.Empty(t, info.ID)

			got := server.Requests()[before]
			assert.Equal(t, c.Request.Path, got.Target)
			assert.False(t, got.Chunks)
			assert.Equal(t, int64(len(got.Body)), got.Length)
			media, attributes, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
			require.NoError(t, err)
			assert.Equal(t, "multipart/form-data", media)
			reader := multipart.NewReader(strings.NewReader(got.Body), attributes["boundary"])
			for _, want := range c.Request.Parts {
				part, err := reader.NextPart()
				require.NoError(t, err)
				assert.Equal(t, want.Name, part.FormName())
				assert.Equal(t, want.Filename, part.FileName())
				assert.Equal(t, want.ContentType, part.Header.Get("Content-Type"))
				body := readAll(t, part)
				if want.Bytes != "" {
					raw, err := base64.StdEncoding.DecodeString(want.Bytes)
					require.NoError(t, err)
					assert.Equal(t, string(raw), body)
				} else if want.Name != "checksum" {
					assert.Equal(t, want.Value, body)
				}
				if want.Name == "checksum" {
					assert.Equal(t, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", body)
				}
			}
		})
	}
}

func TestCaseTaskWarnings(t *testing.T) {
	t.Parallel()
	var c struct {
		Response caseAnswer        `json:"response"`
		More     map[string]string `json:"more_exitstatus"`
	}
	readCase(t, "f12-task-warnings", &c)
	server := newRawServer(t, func(seen) string { return c.Response.text() })
	client := newClient(t, server.URL)
	const upid = "UPID:pve1:00007323:001036A5:6419CAF8:qmstart:100:root@pam:"
	result, err := client.WaitTask(t.Context(), upid)
	require.NoError(t, err)
	assert.Equal(t, 1, result.Warnings)

	for status, want := range c.More {
		warnings, err := client.ParseExitStatus(upid, status)
		kind, param, _ := strings.Cut(want, ":")
		switch kind {
		case "ok":
			assert.NoError(t, err)
		case "warning":
			assert.NoError(t, err)
			assert.Equal(t, 12, warnings)
		case "unknown":
			assert.ErrorIs(t, err, ErrTaskUnknown, status)
		default:
			failed, ok := errors.AsType[*TaskError](err)
			require.True(t, ok)
			assert.NotErrorIs(t, err, ErrTaskUnknown)
			if name, ok := strings.CutPrefix(param, "param:"); ok {
				assert.Equal(t, map[string]string{name: "hotplug problem - duplicate property"}, failed.Params)
				assert.ErrorIs(t, err, ErrInvalidParameter)
			} else {
				assert.ErrorIs(t, err, kinds()[param])
			}
		}
	}
}

func TestCaseUPID(t *testing.T) {
	t.Parallel()
	var cases struct {
		Cases []struct {
			UPID   UPID `json:"upid"`
			Expect struct {
				Error     bool    `json:"error"`
				Node      *string `json:"node"`
				PID       *int64  `json:"pid"`
				PStart    *int64  `json:"pstart"`
				TaskID    *int64  `json:"task_id"`
				StartTime *int64  `json:"starttime"`
				Type      *string `json:"type"`
				ID        *string `json:"id"`
				User      *string `json:"user"`
				Token     *string `json:"token"`
			} `json:"expect"`
		} `json:"cases"`
	}
	readCase(t, "f14-upid-parse", &cases)
	for _, c := range cases.Cases {
		info, err := c.UPID.Parse()
		if c.Expect.Error {
			assert.Error(t, err, c.UPID)
			continue
		}
		require.NoError(t, err, c.UPID)
		for _, pair := range [][2]any{
			{c.Expect.Node, info.Node},
			{c.Expect.PID, info.PID},
			{c.Expect.PStart, info.PStart},
			{c.Expect.TaskID, info.TaskID},
			{c.Expect.StartTime, info.Start.Unix()},
			{c.Expect.Type, info.Type},
			{c.Expect.ID, info.ID},
			{c.Expect.User, info.User},
			{c.Expect.Token, info.Token},
		} {
			switch want := pair[0].(type) {
			case *string:
				if want != nil {
					assert.Equal(t, *want, pair[1])
				}
			case *int64:
				if want != nil {
					assert.Equal(t, *want, pair[1])
				}
			}
		}
	}
}

func TestCaseTFA(t *testing.T) {
	t.Parallel()
	var c struct {
		Sequence []struct {
			Request  caseRequest `json:"request"`
			Response caseAnswer  `json:"response"`
		} `json:"sequence"`
		Expect struct {
			Without struct {
				Methods []string `json:"methods"`
			} `json:"without_handler"`
			With struct {
				Ticket string `json:"ticket"`
				CSRF   string `json:"csrf"`
			} `json:"with_handler"`
		} `json:"expect"`
	}
	readCase(t, "f15-login-needs-tfa", &c)
	server := newRawServer(t, func(s seen) string {
		if strings.Contains(s.Body, "tfa-challenge") {
			return c.Sequence[1].Response.text()
		}
		return c.Sequence[0].Response.text()
	})

	_, err := newClient(t, server.URL, WithPassword("ops@pve", "pw")).Ticket(t.Context())
	required, ok := errors.AsType[*TFARequiredError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, c.Expect.Without.Methods, required.Methods)
	assert.ErrorIs(t, err, ErrTFARequired)
	require.Len(t, server.Requests(), 1)
	assert.Equal(t, c.Sequence[0].Request.Form, server.Requests()[0].Body)

	client := newClient(t, server.URL, WithPassword("ops@pve", "pw"), WithTFA(
		func(_ context.Context, challenge TFAChallenge) (TFAAnswer, error) {
			assert.Equal(t, []string{"totp"}, challenge.Methods)
			return TFAAnswer{Method: "totp", Value: "123456"}, nil
		}))
	ticket, err := client.Ticket(t.Context())
	require.NoError(t, err)
	assert.Equal(t, c.Expect.With.Ticket, ticket.Value)
	assert.Equal(t, c.Expect.With.CSRF, ticket.CSRF)
	assert.WithinDuration(t, time.Now(), ticket.Issued, time.Minute)
	require.Len(t, server.Requests(), 3)
	last := server.Requests()[2]
	assert.Equal(t, c.Sequence[1].Request.Form, last.Body)
	assert.Equal(t, c.Sequence[1].Request.Headers["CSRFPreventionToken"], last.Header.Get("CSRFPreventionToken"))
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}
