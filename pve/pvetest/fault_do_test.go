package pvetest_test

import (
	"testing"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
)

func TestFaultThatDoesSomething(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		fault  pvetest.Fault
		before bool // the call has not taken effect when Do is called
		status int
	}{
		{"and nothing else", pvetest.Fault{}, true, 200},
		{"and refuses", pvetest.Fault{Status: 500, Phrase: "no"}, true, 500},
		{"and cuts before", pvetest.Fault{Cut: pvetest.CutBefore}, true, 0},
		{"after the effect, and refuses", pvetest.Fault{Status: 500, Phrase: "no", After: true}, false, 500},
		{"after the effect, and cuts", pvetest.Fault{Cut: pvetest.CutAfter}, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			calls := 0
			tc.fault.Match, tc.fault.Nth = "POST /pools", 2
			tc.fault.Do = func() {
				calls++
				_, _, there := c.srv.Pool("b")
				assert.Equal(t, tc.before, !there)
			}
			c.srv.Fail(tc.fault)
			c.ok("POST", "/pools", "poolid=a")
			if tc.status == 0 {
				c.cut("POST", "/pools", "poolid=b")
			} else {
				assert.Equal(t, tc.status, c.do("POST", "/pools", "poolid=b").Status)
			}
			assert.Equal(t, 1, calls)
		})
	}
	t.Run("and takes the node down", func(t *testing.T) {
		t.Parallel()
		c := start(t, pvetest.WithNodes("n1", "n2", "n3"))
		c.srv.Fail(pvetest.Fault{Match: "GET /nodes/n3/network", Do: func() { c.srv.SetNodeOnline("n3", false) }})
		assert.Equal(t, 595, c.do("GET", "/nodes/n3/network").Status)
	})
}

func TestFaultFromAProxy(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.Fail(pvetest.Fault{Match: "GET /version", Status: 502, Phrase: "Bad Gateway", HTML: true})
	g := c.do("GET", "/version")
	assert.Equal(t, 502, g.Status)
	assert.Contains(t, g.Body, "<h1>Bad Gateway</h1>")
}
