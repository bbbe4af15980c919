package pve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOtherAnswers reads answers of operations that no recording has: every value must
// fit, and nothing may be lost.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	operations := readOperations(t)
	for _, tt := range []struct {
		call string
		data string
	}{
		{call: "GET /cluster/backup", data: `[{"id":"backup-1","type":"vzdump","enabled":1,"schedule":"sun 01:00","storage":"local","mode":"snapshot","vmid":"100,101","prune-backups":{"keep-last":"3","keep-daily":7},
			"fleecing":{"enabled":"0"},"performance":{"max-workers":"4"},"next-run":1700000000,"notes-template":"{{guestname}}","compress":"zstd","all":0,"mailto":"a@example.com,b@example.com","exclude":"102","repeat-missed":"0"}]`},
		{call: "GET /cluster/backup/backup-1", data: `{"id":"backup-1","prune-backups":"keep-last=3,keep-daily=7","fleecing":"enabled=1,storage=local","performance":"max-workers=4","vmid":"100","bwlimit":"0","exclude-path":["/tmp","/var/tmp"]}`},
		{call: "GET /nodes/pve1/lxc/101/interfaces", data: `[{"name":"lo","hwaddr":"00:00:00:00:00:00","inet":"127.0.0.1/8","inet6":"::1/128"},{"name":"eth0","hwaddr":"bc:24:11:00:00:01","hardware-address":"bc:24:11:00:00:01","ip-addresses":[{"ip-address":"192.0.2.5","ip-address-type":"inet","prefix":"24"}]}]`},
		{call: "GET /nodes/pve1/lxc/101/status/current", data: `{"status":"running","vmid":"101","cpus":"0.5","ha":{"managed":1,"state":"started","sid":"ct:101"},"pid":"1234","pressurecpusome":"0.00","swap":0,"maxswap":536870912,"uptime":"5","type":"lxc","netin":"12","disk":"1073741824","maxdisk":"8.589934592e9","tags":"a;b","lock":"backup","template":""}`},
		{call: "GET /nodes/pve1/lxc/101/pending", data: `[{"key":"memory","value":512,"pending":"1024"},{"key":"net1","delete":1},{"key":"lxc","value":"x"}]`},
		{call: "GET /nodes/pve1/lxc/101/snapshot", data: `[{"name":"current","description":"now","digest":"d","running":0},{"name":"s1","snaptime":1700000000,"description":""}]`},
		{call: "GET /nodes/pve1/lxc/101/config", data: `{"arch":"amd64","hostname":"a","memory":512,"swap":"512","rootfs":"local:101/vm-101-disk-0.raw,size=4G","net0":"name=eth0,bridge=vmbr0,hwaddr=BC:24:11:00:00:01,ip=dhcp,type=veth","features":"nesting=1,keyctl=1,mount=nfs;cifs","mp1":"/srv,mp=/srv,mountoptions=noatime;discard","unprivileged":1,"ostype":"debian","digest":"d","lxc":[["lxc.idmap","u 0 100000 65536"]],"nameserver":"192.0.2.1 192.0.2.2","onboot":"1","startup":"order=1","tags":"x"}`},
		{call: "GET /access/domains", data: `[{"realm":"pam","type":"pam","comment":"Linux PAM","default":1,"tfa":"oath"},{"realm":"corp","type":"ad"}]`},
		{call: "GET /access/tfa", data: `[{"userid":"root@pam","entries":[{"id":"x","type":"totp","description":"d","created":1700000000,"enable":1},{"id":"recovery","type":"recovery","description":""}],"totp-locked":1,"tfa-locked-until":"1800000000"}]`},
		{call: "GET /access/groups/admins", data: `{"comment":"c","members":["root@pam","ops@pve"]}`},
		{call: "GET /cluster/replication", data: `[{"guest":100,"id":"100-0","jobnum":"0","target":"pve2","type":"local","schedule":"*/15","source":"pve1","rate":"10.5","disable":1,"comment":"é"}]`},
		{call: "GET /nodes/pve1/replication", data: `[{"id":"100-0","guest":"100","fail_count":0,"last_sync":1700000000,"last_try":"1700000000","next_sync":1700000900,"duration":3.217,"vmtype":"qemu","error":"x","type":"local","target":"pve2"}]`},
		{call: "GET /nodes/pve1/disks/smart", data: `{"type":"ata","health":"PASSED","attributes":[{"id":"  1","name":"Raw_Read_Error_Rate","value":"100","worst":100,"threshold":"016","flags":"PO-R--","raw":"0","fail":"-"}]}`},
		{call: "GET /nodes/pve1/disks/lvm", data: `{"leaf":0,"children":[{"name":"pve","leaf":"0","size":512110190592,"free":17179869184,"children":[{"name":"/dev/sda3","leaf":1,"size":"512110190592","free":0}]}]}`},
		{call: "GET /nodes/pve1/disks/lvmthin", data: `[{"lv":"data","vg":"pve","lv_size":3.7e+11,"used":1e10,"metadata_size":"3770679296","metadata_used":1}]`},
		{call: "GET /nodes/pve1/disks/zfs", data: `[{"name":"rpool","size":1.99e12,"alloc":"1000","free":2000,"frag":"3","dedup":1.00,"health":"ONLINE"}]`},
		{call: "GET /nodes/pve1/disks/zfs/rpool", data: `{"name":"rpool","state":"ONLINE","scan":"none requested","errors":"No known data errors","children":[{"name":"rpool","state":"ONLINE","read":0,"write":"0","cksum":0,"msg":"","leaf":0,"children":[{"name":"sda3","leaf":1,"state":"ONLINE","read":"0","write":0,"cksum":"2","msg":"x"}]}]}`},
		{call: "GET /nodes/pve1/disks/directory", data: `[{"device":"/dev/disk/by-uuid/x","options":"defaults","path":"/mnt/pve/a","type":"ext4","unitfile":"/etc/systemd/system/mnt-pve-a.mount"}]`},
		{call: "GET /nodes/pve1/hardware/usb", data: `[{"busnum":1,"class":9,"devnum":"1","level":0,"manufacturer":"Linux","port":0,"prodid":"0002","product":"xHCI","serial":"0000:00:14.0","speed":"480","usbpath":"1-1.2","vendid":"1d6b"}]`},
		{call: "GET /nodes/pve1/certificates/info", data: `[{"filename":"pve-ssl.pem","fingerprint":"AA:BB","issuer":"CN=x","notafter":1800000000,"notbefore":"1700000000","public-key-bits":"2048","public-key-type":"rsaEncryption","san":["127.0.0.1","pve1"],"subject":"CN=pve1","pem":"p"}]`},
		{call: "GET /nodes/pve1/apt/update", data: `[{"Package":"pve-manager","Title":"t","Description":"d","Origin":"Proxmox","OldVersion":"9.2.10","Version":"9.2.11","Priority":"optional","Section":"admin","Arch":"amd64"}]`},
		{call: "GET /nodes/pve1/subscription", data: `{"status":"notfound","message":"There is no subscription key","serverid":"X","url":"https://example.com","sockets":"2","level":"c","nextduedate":"2027-01-01","checktime":1700000000}`},
		{call: "GET /nodes/pve1/services", data: `[{"service":"pveproxy","name":"pveproxy","desc":"d","state":"running","active-state":"active","unit-state":"enabled"}]`},
		{call: "GET /nodes/pve1/qemu/100/migrate", data: `{"running":1,"allowed_nodes":["pve2"],"not_allowed_nodes":{"pve3":{"unavailable_storages":["local-lvm"]}},"local_disks":[{"volid":"local:100/vm-100-disk-0.raw","size":"1073741824","cdrom":0,"is_unused":0}],"local_resources":[],"mapped-resources":[],"has-dbus-vmstate":1}`},
		{call: "GET /nodes/pve1/netstat", data: `[{"vmid":"100","dev":"net0","in":"123","out":456}]`},
		{call: "GET /nodes/pve1/rrddata", data: `[{"time":1700000000},{"time":1700000060,"cpu":0.0123,"maxcpu":"4","loadavg":0.5,"memtotal":8.4e9,"memused":4234567890.12,"netin":12.5,"netout":"0","iowait":1e-05,"pressurecpusome":0}]`},
		{call: "GET /nodes/pve1/qemu/100/rrddata", data: `[{"time":"1700000000","cpu":0.1,"mem":1234.5,"maxmem":2147483648,"disk":0,"diskread":1.5,"netin":null}]`},
		{call: "GET /nodes/pve1/storage/local/rrddata", data: `[{"time":1700000000,"total":2.7e11,"used":"25516122112.5"}]`},
		{call: "GET /nodes/pve1/journal", data: `["a","b c"]`},
		{call: "GET /nodes/pve1/syslog", data: `[{"n":1,"t":"x"},{"n":"2","t":42}]`},
		{call: "GET /nodes/pve1/time", data: `{"localtime":1700003600,"time":"1700000000","timezone":"Europe/Vienna"}`},
		{call: "GET /nodes/pve1/dns", data: `{"dns1":"192.0.2.1","search":"example.com"}`},
		{call: "GET /cluster/log", data: `[{"id":"1:pve1","uid":5,"pid":"123","pri":6,"time":1700000000,"node":"pve1","user":"root@pam","tag":"pvedaemon","msg":"x"}]`},
		{call: "GET /cluster/tasks", data: `[{"upid":"UPID:pve1:00007323:001036A5:6419CAF8:qmstart:100:root@pam:","node":"pve1","type":"qmstart","id":100,"user":"root@pam","starttime":1679411960,"endtime":"1679411961","status":"OK","saved":"1","tokenid":"t"},{"upid":"U","saved":"0","starttime":1}]`},
		{call: "GET /cluster/ha/groups", data: `[{"group":"g","type":"group","nodes":"pve1:2,pve2","restricted":1,"nofailback":"0","comment":"c","digest":"d"}]`},
		{call: "GET /cluster/ha/rules/r1", data: `{"rule":"r1","type":"resource-affinity","affinity":"negative","resources":"vm:100,vm:101","disable":"1","digest":"d"}`},
		{call: "GET /cluster/jobs/realm-sync", data: `[{"id":"j","realm":"corp","schedule":"daily","enabled":"1","last-run":1700000000,"next-run":1700000900,"scope":"users","remove-vanished":"acl;entry","enable-new":1,"comment":"c"}]`},
		{call: "GET /cluster/metrics/server/m1", data: `{"id":"m1","type":"influxdb","server":"192.0.2.1","port":"8086","disable":0,"mtu":1500,"timeout":"1","max-body-size":25000000,"verify-certificate":"1"}`},
		{call: "GET /cluster/mapping/pci", data: `[{"id":"gpu","map":["node=pve1,path=0000:01:00.0,id=10de:1234"],"description":"d","digest":"x","mdev":"1","checks":[{"severity":"error","message":"m"}]}]`},
		{call: "GET /cluster/sdn/zones/z1", data: `{"zone":"z1","type":"vxlan","peers":"192.0.2.1,192.0.2.2","mtu":"1450","nodes":"pve1","ipam":"pve","digest":"d","vxlan-port":4789}`},
		{call: "GET /cluster/sdn/controllers", data: `[{"controller":"c","type":"evpn","asn":"65000","peers":"192.0.2.1,192.0.2.2","ebgp":1,"node":"pve1","loopback":"lo"}]`},
		{call: "GET /cluster/sdn/ipams/pve/status", data: `[{"zone":"z1","vnet":"v1","subnet":"192.0.2.0/24","ip":"192.0.2.5","mac":"BC:24:11:00:00:01","vmid":"100","hostname":"a"},{"ip":"192.0.2.1","gateway":1}]`},
		{call: "GET /nodes/pve1/storage/local/prunebackups", data: `[{"ctime":1700000000,"mark":"keep","type":"qemu","vmid":"100","volid":"local:backup/x.vma.zst"}]`},
		{call: "GET /nodes/pve1/capabilities/qemu/machines", data: `[{"id":"pc-i440fx-9.2+pve1","type":"i440fx","version":"9.2+pve1","changes":"x"}]`},
		{call: "GET /nodes/pve1/scan/nfs", data: `[{"path":"/srv","options":"*"}]`},
		{call: "GET /nodes/pve1/scan/lvmthin", data: `[{"lv":"data"}]`},
		{call: "GET /nodes/pve1/ceph/osd/0/lv-info", data: `{"creation_time":"2026-01-01","lv_name":"osd-block-1","lv_path":"/dev/ceph-x/y","lv_size":"1.2e12","lv_uuid":"u","vg_name":"v"}`},
		{call: "GET /nodes/pve1/ceph/pool", data: `[{"pool":1,"pool_name":"rbd","size":"3","min_size":2,"pg_num":128,"bytes_used":1e12,"percent_used":0.05,"application_metadata":{"rbd":{}},"crush_rule":0,"crush_rule_name":"replicated_rule","type":"replicated"}]`},
		{call: "POST /nodes/pve1/termproxy", data: `{"port":"5900","ticket":"PVEVNC:x","upid":"U","user":"root@pam"}`},
		{call: "POST /nodes/pve1/qemu/100/spiceproxy", data: `{"type":"spice","host":"pvespiceproxy:x","password":"p","proxy":"http://pve1:3128","tls-port":61000,"title":"VM 100","delete-this-file":"1","secure-attention":"Ctrl+Alt+Ins","release-cursor":"Ctrl+Alt+R","toggle-fullscreen":"Shift+F11","host-subject":"OU=x","ca":"-----"}`},
	} {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(tt.call, " ")
			e := exchange{Name: tt.call}
			e.Request.Method, e.Request.Target = method, apiBase+path
			e.Answer.JSON = json.RawMessage(`{"data":` + tt.data + `}`)
			require.True(t, json.Valid(e.Answer.JSON))
			for _, fault := range operations.replay(t, e) {
				t.Error(fault)
			}
		})
	}
}
