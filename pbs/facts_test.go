package pbs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pbs"
)

// TestAnswers holds shapes of answers that the API description tells otherwise or leaves
// open.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		data string
		read func(context.Context, *pbs.Client) (any, error)
		want any
	}{
		{
			name: "files of a snapshot",
			data: `[{"backup-id":"100","backup-time":1700000000,"backup-type":"vm","files":[{"crypt-mode":"none","filename":"index.json.blob","size":500},{"filename":"drive-scsi0.img.fidx"}],"owner":"root@pam!t","protected":false,"size":123,"verification":{"state":"ok","upid":"UPID:pbs:00000267:0011E1D7:00000009:6A48CA08:verify:s:root@pam:"},"comment":"x","fingerprint":null}]`,
			read: func(ctx context.Context, c *pbs.Client) (any, error) {
				list, err := c.ListBackupSnapshots(ctx, pbs.ListBackupSnapshotsParams{Store: "s"})
				if err != nil {
					return nil, err
				}
				return list[0].Files, nil
			},
			want: []pbs.BackupSnapshotListItemFile{{Filename: "index.json.blob", CryptMode: new("none"), Size: new(uint64(500))}, {Filename: "drive-scsi0.img.fidx"}},
		},
		{
			name: "usage beyond fifteen digits",
			data: `[{"store":"s","total":1.2e16,"used":"2","avail":18446744073692774400,"history":[0.1,0.2],"gc-status":{"disk-bytes":1,"upid":null},"mount-status":"nonremovable"}]`,
			read: func(ctx context.Context, c *pbs.Client) (any, error) {
				list, err := c.ListStatusDatastoreUsage(ctx)
				if err != nil {
					return nil, err
				}
				return []uint64{*list[0].Total, *list[0].Used, *list[0].Avail}, nil
			},
			want: []uint64{12000000000000000, 2, 18446744073692774400},
		},
		{
			name: "tasks",
			data: `[{"upid":"UPID:pbs:00000267:0011E1D7:00000009:6A48CA08:acme-register:test1:root@pam:","node":"pbs","pid":615,"pstart":1171927,"starttime":1783155208,"worker_type":"acme-register","worker_id":null,"user":"root@pam"}]`,
			read: func(ctx context.Context, c *pbs.Client) (any, error) {
				list, err := c.ListTasks(ctx, pbs.ListTasksParams{Node: "localhost"})
				if err != nil {
					return nil, err
				}
				info, err := list[0].UPID.Parse()
				return []any{info.TaskID, info.ID, info.PStart, list[0].WorkerType}, err
			},
			want: []any{int64(9), "test1", int64(1171927), "acme-register"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := resttest.NewServer(t, func(resttest.Request) string { return resttest.ReplyData(tt.data) })
			client, err := pbs.NewClient(server.URL, pbs.WithOnMisfit(func(m pbs.Misfit) { t.Errorf("%+v", m) }))
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			got, err := tt.read(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}
