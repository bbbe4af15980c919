package pve_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

const someTask = pve.UPID("UPID:pve1:00007323:8206F38C:6419CAF8:qmstart:100:ops@pve!ci:")

func taskStatus(exit string) string {
	text, _ := json.Marshal(exit)
	return resttest.ReplyData(`{"status":"stopped","upid":"` + string(someTask) + `","exitstatus":` + string(text) + `}`)
}

// TestEndsOfTasks holds how tasks end and what that means, rows 65, 89, 90, 95 and 100.
func TestEndsOfTasks(t *testing.T) {
	t.Parallel()
	const running = `{"status":"running"}`
	unknownTask := resttest.Reply(400, "Parameter verification failed.", resttest.JSONType, `{"data":null,"errors":{"upid":"no such task"}}`)
	tests := []struct {
		name     string
		looks    []string // answers to looks at the task; the last one stays
		warnings int
		exit     string
		is       error
		params   map[string]string
	}{
		{name: "well", looks: []string{resttest.ReplyData(running), taskStatus("OK")}},
		{name: "with warnings, row 95", looks: []string{taskStatus("WARNINGS: 12")}, warnings: 12},
		{name: "through broken connections, row 65", looks: []string{
			resttest.Reply(599, "Too many redirections", "", ""), "", resttest.Reply(595, "Connection refused", "", ""), resttest.Reply(596, "x", "", ""),
			resttest.ReplyData(running), taskStatus("OK"),
		}},
		{name: "unknown at first, row 90", looks: []string{unknownTask, unknownTask, resttest.ReplyData(running), taskStatus("OK")}},
		{name: "import that failed, row 89", looks: []string{taskStatus("import failed: unable to open '/var/tmp/pveupload-x' - No such file or directory")}, exit: "import failed: unable to open '/var/tmp/pveupload-x' - No such file or directory", is: pve.ErrNotFound},
		{
			name: "device that was not plugged in, row 100", looks: []string{taskStatus("400 Parameter verification failed. scsi3: hotplug problem - duplicate property")},
			exit: "400 Parameter verification failed. scsi3: hotplug problem - duplicate property", is: pve.ErrInvalidParameter, params: map[string]string{"scsi3": "hotplug problem - duplicate property"},
		},
		{name: "lock, row 68", looks: []string{taskStatus("can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")}, exit: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", is: pve.ErrLocked},
		{name: "not known, row 95", looks: []string{taskStatus("unexpected status")}, exit: "unexpected status", is: pve.ErrTaskUnknown},
		{name: "log that cannot be read, row 95", looks: []string{taskStatus("unable to get last line from task log - no such file")}, exit: "unable to get last line from task log - no such file", is: pve.ErrTaskUnknown},
		{name: "taken back", looks: []string{taskStatus("received interrupt")}, exit: "received interrupt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var look atomic.Int64
			client, server := newFactsClient(t, func(r resttest.Request) string {
				if strings.Contains(r.Target, "/log?") {
					return resttest.ReplyData(`[{"n":1,"t":"line 1"},{"n":2,"t":"TASK ENDS"}]`)
				}
				return tt.looks[min(int(look.Add(1)), len(tt.looks))-1]
			})
			result, err := client.WaitTask(t.Context(), someTask, pve.WithTaskPoll(time.Millisecond, time.Millisecond))
			for _, r := range server.Requests() {
				assert.Equal(t, "GET", r.Method, "a wait sends nothing again")
				assert.True(t, strings.HasPrefix(r.Target, apiBase+"/nodes/pve1/tasks/UPID%3Apve1%3A00007323%3A8206F38C%3A6419CAF8%3Aqmstart%3A100%3Aops%40pve%21ci%3A/"), r.Target)
			}
			if tt.exit == "" {
				require.NoError(t, err)
				assert.Equal(t, tt.warnings, result.Warnings)
				return
			}
			var failed *pve.TaskError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, tt.exit, failed.ExitStatus)
			assert.Equal(t, someTask, failed.UPID)
			assert.Equal(t, tt.params, failed.Params)
			assert.Equal(t, []string{"line 1", "TASK ENDS"}, failed.Log, "the log is read to its end, row 99")
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			}
		})
	}
}

// TestMaybeATask: the same call begins a task in one release and does its work at once
// in another, row 98.
func TestMaybeATask(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]pve.UPID{`null`: "", `""`: "", `"` + string(someTask) + `"`: someTask} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			client, server := newFactsClient(t, func(r resttest.Request) string {
				if r.Method == "GET" {
					return taskStatus("OK")
				}
				return resttest.ReplyData(data)
			})
			upid, err := client.ResizeVM(t.Context(), pve.ResizeVMParams{Node: "pve1", VMID: 100, Disk: "scsi0", Size: "+1G"})
			require.NoError(t, err)
			assert.Equal(t, want, upid)
			_, err = client.WaitTask(t.Context(), upid)
			require.NoError(t, err)
			assert.Len(t, server.Requests(), map[bool]int{true: 1, false: 2}[want == ""])
		})
	}
}

// TestTaskNames holds names of tasks, rows 96 and 97.
func TestTaskNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		upid  pve.UPID
		want  pve.UPIDInfo
		fails bool
	}{
		{upid: "UPID:pve-2:0012D68C:8206F38C:65144CB7:qmcreate:501:root@pam:", want: pve.UPIDInfo{Node: "pve-2", PID: 1234572, PStart: 2181493644, Start: time.Unix(1695829175, 0), Type: "qmcreate", ID: "501", User: "root@pam"}},
		{upid: "UPID:n1:00000ACD:1FFFFFFFF:679A423B:qmclone:112:ops@pve!ci:", want: pve.UPIDInfo{Node: "n1", PID: 2765, PStart: 8589934591, Start: time.Unix(1738162747, 0), Type: "qmclone", ID: "112", User: "ops@pve", Token: "ci"}},
		{upid: "UPID:n1:00000ACD:00006AE8:679A423B:aptupdate::root@pam:", want: pve.UPIDInfo{Node: "n1", PID: 2765, PStart: 27368, Start: time.Unix(1738162747, 0), Type: "aptupdate", User: "root@pam"}},
		{upid: "UPID:pve1:000011A5:00052BA7:6B0E103A:qmmove:121-scsi0>122-scsi5:root@pam!t0:", want: pve.UPIDInfo{Node: "pve1", PID: 4517, PStart: 338855, Start: time.Unix(1796083770, 0), Type: "qmmove", ID: "121-scsi0>122-scsi5", User: "root@pam", Token: "t0"}},
		{upid: "UPID:n1:1:2:3:qmstart:100", fails: true},
		{upid: "", fails: true},
		{upid: "100", fails: true},
	} {
		t.Run(string(tt.upid), func(t *testing.T) {
			t.Parallel()
			got, err := tt.upid.Parse()
			if tt.fails {
				assert.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.True(t, tt.want.Start.Equal(got.Start))
			got.Start = tt.want.Start
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestNumbersThatAreTaken: of those who get the same next number all but one try again,
// and learn which number they got, rows 101 and 103.
func TestNumbersThatAreTaken(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"by parameter": resttest.Reply(400, "Parameter verification failed.", resttest.JSONType, `{"errors":{"newid":"VM 218 already exists"},"data":null}`),
		"by phrase":    resttest.ReplyError(500, "unable to create VM 218 - VM 218 already exists on node 'pve2'"),
		"by file":      resttest.ReplyError(500, "unable to create VM 218: config file already exists"),
		"in the task":  "task",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			clones, next := 0, 218
			client, _ := newFactsClient(t, func(r resttest.Request) string {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case strings.HasSuffix(r.Target, "/cluster/nextid"):
					answer := resttest.ReplyData(`"` + string(rune('0'+next/100)) + string(rune('0'+next/10%10)) + string(rune('0'+next%10)) + `"`)
					next++
					return answer
				case r.Method == "POST":
					if clones++; clones == 1 && refusal != "task" {
						return refusal
					}
					return resttest.ReplyData(`"` + string(someTask) + `"`)
				case strings.Contains(r.Target, "/log?"):
					return resttest.ReplyData("[]")
				case clones == 1:
					return taskStatus("unable to create VM 218 - VM 218 already exists on node 'pve2'")
				}
				return taskStatus("OK")
			})
			id, err := client.CloneVMWithNextID(t.Context(), pve.CloneVMParams{Node: "pve1", VMID: 9000})
			require.NoError(t, err)
			assert.EqualValues(t, 219, id)
			assert.Equal(t, 2, clones)
		})
	}
}

// TestGuestAgents holds what agents answer, rows 104 to 107.
func TestGuestAgents(t *testing.T) {
	t.Parallel()
	interfaces := one((*pve.Client).VMAgentGetNetworkInterfaces, func(r *pve.VMAgentGetNetworkInterfacesResult) any {
		var rows []any
		for _, i := range r.Result {
			rows = append(rows, short(i.Name, i.HardwareAddress, len(i.IPAddresses)))
			for _, ip := range i.IPAddresses {
				rows = append(rows, short(ip.IPAddress, ip.IPAddressType, ip.Prefix))
			}
		}
		return rows
	})
	tests := []struct {
		name    string
		answer  string
		read    reading
		want    any
		is      error
		message string
	}{
		{
			name: "Windows, row 104", read: interfaces, answer: resttest.ReplyData(`{"result":[{"name":"Ethernet","ip-addresses":[{"ip-address":"fe80::1%3","ip-address-type":"ipv6","prefix":-1},{"ip-address":"192.0.2.1","ip-address-type":"ipv4","prefix":"24"}]}]}`),
			want: []any{row{"Ethernet", nil, 2}, row{"fe80::1%3", "ipv6", int64(-1)}, row{"192.0.2.1", "ipv4", int64(24)}},
		},
		{
			name: "interface without addresses, row 105", read: interfaces, answer: resttest.ReplyData(`{"result":[{"name":"eth0","hardware-address":"bc:24:11:00:00:01"},{"name":"lo","ip-addresses":null},{"name":"x","ip-addresses":[]}]}`),
			want: []any{row{"eth0", "bc:24:11:00:00:01", 0}, row{"lo", nil, 0}, row{"x", nil, 0}},
		},
		{
			name: "command that is switched off, row 104", read: interfaces, answer: resttest.ReplyData(`{"result":{"error":{"class":"CommandDisabled","desc":"Command guest-network-get-interfaces has been disabled"}}}`),
			is: pve.ErrNotImplemented, message: "Command guest-network-get-interfaces has been disabled",
		},
		{
			name: "command that the agent does not know", read: one((*pve.Client).VMAgentFSTrim, func(r *pve.VMAgentFSTrimResult) any { return r }),
			answer: resttest.ReplyData(`{"result":{"error":{"class":"CommandNotFound","desc":"The command guest-fstrim has not been found"}}}`), is: pve.ErrNotImplemented, message: "The command guest-fstrim has not been found",
		},
		{name: "refusal without a class", read: interfaces, answer: resttest.ReplyData(`{"result":{"error":{"desc":"out of order"}}}`), message: "out of order"},
		{
			name: "command that is switched off, refused by the server", read: interfaces, answer: refuse(500, "Agent error: The command guest-exec has been disabled for this instance"),
			is: pve.ErrNotImplemented, message: "Agent error: The command guest-exec has been disabled for this instance",
		},
		{name: "file system that could not be trimmed", read: one((*pve.Client).VMAgentFSTrim, func(r *pve.VMAgentFSTrimResult) any {
			return short(len(r.Result.Paths), r.Result.Paths[0].Error, r.Result.Paths[1].Trimmed)
		}), answer: resttest.ReplyData(`{"result":{"paths":[{"path":"/","error":"read-only"},{"path":"/srv","trimmed":"1e9"}]}}`), want: row{2, "read-only", uint64(1e9)}},
		{name: "agent that does not run, row 106", read: interfaces, answer: refuse(500, "QEMU guest agent is not running"), is: pve.ErrAgent, message: "QEMU guest agent is not running"},
		{name: "agent that does not run, phrase alone, row 106", read: interfaces, answer: resttest.ReplyError(500, "QEMU guest agent is not running"), is: pve.ErrAgent, message: "QEMU guest agent is not running"},
		{name: "agent that does not answer, row 106", read: interfaces, answer: refuse(500, "VM 100 qmp command 'guest-ping' failed - got timeout"), is: pve.ErrAgent, message: "VM 100 qmp command 'guest-ping' failed - got timeout"},
		{name: "guest that does not run", read: interfaces, answer: refuse(500, "VM 101 is not running"), is: pve.ErrNotRunning, message: "VM 101 is not running"},
		{name: "program without a number, row 107", read: one((*pve.Client).VMAgentExec, func(r *pve.VMAgentExecResult) any { return r.PID }), answer: resttest.ReplyData(`{}`), want: int64(0)},
		{name: "program with a number, row 107", read: one((*pve.Client).VMAgentExec, func(r *pve.VMAgentExecResult) any { return r.PID }), answer: resttest.ReplyData(`{"pid":"4711"}`), want: int64(4711)},
		{name: "nothing to say", read: one((*pve.Client).VMAgentPing, func(r *pve.VMAgentEmptyResult) any { return r.Result.Error == nil }), answer: resttest.ReplyData(`{"result":{}}`), want: true},
		{name: "file", read: one((*pve.Client).VMAgentFileRead, func(r *pve.VMAgentFileReadResult) any { return short(r.Content, r.Truncated, r.BytesRead) }), answer: resttest.ReplyData(`{"content":"a\u0000b","truncated":1,"bytes-read":"3"}`), want: row{"a\x00b", true, uint64(3)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, _ := newFactsClient(t, always(tt.answer), pve.WithOnMisfit(func(m pve.Misfit) { t.Errorf("%+v", m) }))
			got, err := tt.read(t.Context(), client)
			if tt.message == "" {
				require.NoError(t, err)
				assert.Equal(t, tt.want, got)
				return
			}
			var refused *pve.Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, tt.message, refused.Message)
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			}
		})
	}
}

// TestUploadOnTheWire holds what an upload looks like, rows 86 and 88.
func TestUploadOnTheWire(t *testing.T) {
	t.Parallel()
	client, server := newFactsClient(t, always(resttest.ReplyData(`"UPID:pve1:00012345:0A1B2C3D:6A1B2C3D:imgcopy::ops@pve!ci:"`)))
	upid, err := client.UploadToStorage(t.Context(), pve.UploadToStorageParams{
		Node: "pve1", Storage: "local", Content: "iso", Filename: "tiny.iso", ChecksumAlgorithm: new("sha256"),
		Checksum: new("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
	}, pve.Upload{Body: strings.NewReader("test")})
	require.NoError(t, err)
	info, err := upid.Parse()
	require.NoError(t, err)
	assert.Equal(t, "imgcopy", info.Type)
	assert.Empty(t, info.ID)
	got := server.Requests()[0]
	assert.Equal(t, apiBase+"/nodes/pve1/storage/local/upload", got.Target)
	assert.EqualValues(t, len(got.Body), got.Length)
	assert.False(t, got.Chunks)
	_, boundary, ok := strings.Cut(got.Header.Get("Content-Type"), "multipart/form-data; boundary=")
	require.True(t, ok, got.Header.Get("Content-Type"))
	field := func(name, value string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	assert.Equal(t, field("content", "iso")+field("checksum-algorithm", "sha256")+field("checksum", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")+
		"--"+boundary+"\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"tiny.iso\"\r\nContent-Type: application/octet-stream\r\n\r\ntest\r\n--"+boundary+"--\r\n", got.Body)
}

// TestOnlyTheContextLimits: no call has a time limit of its own, row 92.
func TestOnlyTheContextLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	client, _ := newFactsClient(t, func(resttest.Request) string {
		<-release
		return resttest.ReplyData("null")
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- startVM(ctx, client) }()
	select {
	case err := <-done:
		t.Fatal(err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, pve.ErrNoAnswer, "whether the guest starts is not known")
	assert.False(t, pve.IsRetryable(err))
	close(release)
}
