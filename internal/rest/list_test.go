package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type pageParams struct {
	Node  string `json:"node"`
	Start *int64 `json:"start,omitempty"`
	Limit *int64 `json:"limit,omitempty"`
}

func TestAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		size   int64 // of the whole list
		params pageParams
		stop   int // after so many items
		failAt int64
		want   int
		calls  int
	}{
		{name: "empty", want: 0, calls: 1},
		{name: "one page", size: 10, want: 10, calls: 1},
		{name: "exactly one page", size: 500, want: 500, calls: 2},
		{name: "three pages", size: 1234, want: 1234, calls: 3},
		{name: "small pages", size: 25, params: pageParams{Limit: new(int64(10))}, want: 25, calls: 3},
		{name: "from the middle", size: 25, params: pageParams{Start: new(int64(20)), Limit: new(int64(10))}, want: 5, calls: 1},
		{name: "from behind the end", size: 25, params: pageParams{Start: new(int64(30))}, want: 0, calls: 1},
		{name: "stops when told", size: 2000, stop: 3, want: 3, calls: 1},
		{name: "breaks", size: 2000, failAt: 1000, want: 1000, calls: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			list := func(_ context.Context, p pageParams) ([]int64, error) {
				calls++
				if tc.failAt > 0 && *p.Start >= tc.failAt {
					return nil, broken
				}
				var out []int64
				for i := *p.Start; i < min(tc.size, *p.Start+*p.Limit); i++ {
					out = append(out, i)
				}
				return out, nil
			}
			given := tc.params
			var got []int64
			var failed error
			for item, err := range All(t.Context(), list, tc.params) {
				if err != nil {
					failed = err
					continue
				}
				got = append(got, item)
				if len(got) == tc.stop {
					break
				}
			}
			assert.Len(t, got, tc.want)
			for i, item := range got {
				first := int64(0)
				if given.Start != nil {
					first = *given.Start
				}
				assert.Equal(t, first+int64(i), item)
			}
			assert.Equal(t, tc.calls, calls)
			assert.Equal(t, given, tc.params, "the caller's parameters stay as they are")
			if tc.failAt > 0 {
				assert.ErrorIs(t, failed, broken)
			} else {
				assert.NoError(t, failed)
			}
		})
	}
	for _, err := range All(t.Context(), func(context.Context, struct{ Node string }) ([]int, error) { return nil, nil }, struct{ Node string }{}) {
		assert.ErrorContains(t, err, "does not come in pages")
	}
	for _, err := range All(t.Context(), func(context.Context, int) ([]int, error) { return nil, nil }, 1) {
		assert.ErrorContains(t, err, "no structure")
	}
}

// TestAllWithTotal: what the server says about the length of the list decides, not the
// length of a page.
func TestAllWithTotal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		size, atMost     int64 // of the list, and of what the server gives at a time
		total            int64 // what it says, if not size
		params           pageParams
		wantItems, calls int
	}{
		{name: "exactly one page", size: 500, atMost: 500, wantItems: 500, calls: 1},
		{name: "pages cut short by the server", size: 120, atMost: 50, wantItems: 120, calls: 3},
		{name: "begins behind the end", size: 10, atMost: 500, params: pageParams{Start: new(int64(20))}, calls: 1},
		{name: "says more than it has", size: 10, atMost: 500, total: 11, wantItems: 10, calls: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := newRawServer(t, func(r seen) string {
				calls++
				target, err := url.Parse(r.Target)
				if !assert.NoError(t, err) {
					return ""
				}
				query := target.Query()
				start, _ := strconv.ParseInt(query.Get("start"), 10, 64)
				limit, _ := strconv.ParseInt(query.Get("limit"), 10, 64)
				items := []string{}
				for i := start; i < min(tc.size, start+min(limit, tc.atMost)); i++ {
					items = append(items, strconv.FormatInt(i, 10))
				}
				return reply(200, "OK", jsonType, `{"data":[`+strings.Join(items, ",")+`],"total":`+strconv.FormatInt(max(tc.size, tc.total), 10)+`}`)
			})
			client := newClient(t, server.URL)
			list := func(ctx context.Context, p pageParams) ([]int64, error) {
				var out []int64
				err := client.Call(ctx, http.MethodGet, "/nodes/{node}/tasks", &p, &out)
				return out, err
			}
			tc.params.Node = "pve1"
			got := 0
			for _, err := range All(t.Context(), list, tc.params) {
				require.NoError(t, err)
				got++
			}
			assert.Equal(t, tc.wantItems, got)
			assert.Equal(t, tc.calls, calls)
		})
	}
}

func TestWithMeta(t *testing.T) {
	t.Parallel()
	total := 41
	server := newRawServer(t, func(seen) string {
		total++
		return reply(200, "OK", jsonType, `{"data":[],"total":`+strconv.Itoa(total)+`}`)
	})
	client := newClient(t, server.URL)
	ctx, meta := WithMeta(t.Context())
	assert.Equal(t, Meta{}, meta())
	for want := range int64(2) {
		var out []int
		require.NoError(t, client.Call(ctx, http.MethodGet, "/x", nil, &out))
		assert.Equal(t, 42+want, meta().Total)
	}
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
	assert.Equal(t, int64(43), meta().Total, "other contexts note nothing")
}
