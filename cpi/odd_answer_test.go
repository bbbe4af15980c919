package cpi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
)

// An answer that is no list says nothing about what is there: neither "gone" nor
// "done" may come of it.
func TestAnswersOfAnotherKind(t *testing.T) {
	t.Parallel()
	const (
		vm       = rpc.VMCID("vm-101-abcdefghjkmn")
		disk     = rpc.DiskCID("disk-k3v9q2m8x1z7c4b")
		stemcell = rpc.StemcellCID("stemcell-0123456789abcdef0123456789abcdef")
	)
	for _, data := range []string{`{}`, `{"vmid":101}`, `"ok"`, `1`} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			writes := 0
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					writes++
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"data":` + data + `}`))
			}))
			defer server.Close()
			sum := sha256.Sum256(server.Certificate().Raw)
			cfg, err := cpi.ParseConfig([]byte(`{"endpoint":"`+server.URL+`","token":"root@pam!t=secret","fingerprint":"`+hex.EncodeToString(sum[:])+`","storage":"data","lock_dir":"`+t.TempDir()+`"}`), nil)
			require.NoError(t, err)
			log := &rpc.Log{}
			c, err := cpi.New(cfg, cpi.Options{Log: log})
			require.NoError(t, err)

			_, err = c.HasVM(t.Context(), vm)
			assert.ErrorContains(t, err, "its answer is damaged", "has_vm")
			_, err = c.HasDisk(t.Context(), disk)
			assert.ErrorContains(t, err, "its answer is damaged", "has_disk")
			assert.Error(t, c.DeleteVM(t.Context(), vm), "delete_vm")
			assert.Error(t, c.DeleteDisk(t.Context(), disk), "delete_disk")
			assert.Error(t, c.DeleteStemcell(t.Context(), stemcell), "delete_stemcell")
			assert.Zero(t, writes)
			assert.True(t, strings.HasPrefix(log.String(), "warning: the answer to GET /cluster/resources"), log.String())
		})
	}
}
