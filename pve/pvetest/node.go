package pvetest

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

func registerNodes(r *registry) {
	r.handle("GET /nodes", nodeList)
	r.handle("GET /nodes/{node}", index("name", "aplinfo", "apt", "capabilities", "ceph", "certificates", "config", "disks", "dns", "firewall",
		"hardware", "hosts", "journal", "lxc", "migrateall", "netstat", "network", "qemu", "query-oci-repo-tags", "query-url-metadata", "replication",
		"report", "rrd", "rrddata", "scan", "sdn", "services", "spiceshell", "startall", "status", "stopall", "storage", "subscription", "suspendall",
		"syslog", "tasks", "termproxy", "time", "version", "vncshell", "vzdump", "wakeonlan"))
	r.handle("GET /nodes/{node}/version", version)
	r.handle("GET /nodes/{node}/status", nodeStatus)
	r.handle("GET /nodes/{node}/time", nodeTime)
	r.handle("GET /nodes/{node}/dns", nodeDNS)
	r.handle("GET /nodes/{node}/hosts", nodeHosts)
	r.handle("GET /nodes/{node}/config", func(*call) (any, error) { return map[string]any{}, nil })
	r.handle("GET /nodes/{node}/services", emptyList)
	r.handle("GET /nodes/{node}/netstat", emptyList)
	r.handle("GET /nodes/{node}/disks/list", emptyList)
	r.handle("GET /nodes/{node}/hardware/pci", nodePCI)
	r.handle("GET /nodes/{node}/subscription", func(*call) (any, error) {
		return map[string]any{"status": "notfound", "message": "There is no subscription key", "url": "https://www.proxmox.com/en/proxmox-virtual-environment/pricing"}, nil
	})
	r.handle("GET /nodes/{node}/capabilities/qemu/cpu", cpuModels)
	r.handle("POST /nodes/{node}/execute", func(*call) (any, error) { return nil, fail(501, "batches of calls are not simulated") })
}

func emptyList(*call) (any, error) { return []any{}, nil }

// nodeFingerprint stands for the fingerprint of a node's certificate.
func (s *Server) nodeFingerprint(name string) string {
	if name == s.entry() {
		return s.Fingerprint()
	}
	sum := sha256.Sum256([]byte(name))
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

func nodeList(c *call) (any, error) {
	out := []map[string]any{}
	for _, name := range sortedKeys(c.cl().Nodes) {
		n := c.cl().Nodes[name]
		row := map[string]any{"node": name, "type": "node", "id": "node/" + name, "level": "", "status": "online", "ssl_fingerprint": c.s.nodeFingerprint(name)}
		switch {
		case n.Offline:
			row["status"] = "offline"
		case c.may("/nodes/"+name, "Sys.Audit"):
			for k, v := range c.nodeFigures(n) {
				row[k] = v
			}
		}
		out = append(out, row)
	}
	return out, nil
}

func nodeStatus(c *call) (any, error) {
	n := c.cl().Nodes[c.node]
	mem, cpu := c.nodeLoad(n)
	disk := n.Disk / 10
	kernel := "6.18.44-1-pve"
	built := "#1 SMP PREEMPT_DYNAMIC PMX 6.18.44-1"
	return map[string]any{
		"cpuinfo": map[string]any{
			"model": "AMD EPYC", "vendor": "AuthenticAMD", "family": "26", "mhz": "2096.025", "user_hz": 100, "hvm": "1",
			"sockets": 1, "cores": n.CPUs, "cpus": n.CPUs, "flags": "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx fxsr sse sse2 ht syscall nx svm aes avx2",
		},
		"memory": map[string]any{"total": n.Memory, "used": mem, "free": n.Memory - mem, "available": n.Memory - mem},
		"swap":   map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs": map[string]any{"total": n.Disk, "used": disk, "free": n.Disk - disk, "avail": n.Disk - disk},
		"ksm":    map[string]any{"shared": 0}, "pveversion": "pve-manager/9.2.11/14a22df3lab00",
		"current-kernel": map[string]any{"sysname": "Linux", "release": kernel, "version": built, "machine": "x86_64"},
		"kversion":       "Linux " + kernel + " " + built, "boot-info": map[string]any{"mode": "legacy-bios"},
		"loadavg": []string{"0.10", "0.08", "0.05"}, "uptime": int64(c.now.Sub(c.s.booted).Seconds()), "cpu": cpu, "idle": 0, "wait": 0,
	}, nil
}

func nodeTime(c *call) (any, error) {
	t := c.now.Unix()
	return map[string]any{"timezone": "UTC", "time": t, "localtime": t}, nil
}

func nodeDNS(*call) (any, error) {
	return map[string]any{"search": "example.com", "dns1": "192.0.2.53"}, nil
}

func nodeHosts(c *call) (any, error) {
	n := c.cl().Nodes[c.node]
	text := fmt.Sprintf("127.0.0.1 localhost\n%s %s.example.com %[2]s\n", n.IP, n.Name)
	return map[string]any{"data": text, "digest": sha1hex(text)}, nil
}

func nodePCI(*call) (any, error) {
	out := []map[string]any{}
	for i, class := range []string{"0xffff00", "0x018000", "0x020000", "0xffff00", "0xffff00"} {
		dev := []string{"0x1045", "0x1042", "0x1041", "0x1053", "0x1044"}[i]
		out = append(out, map[string]any{
			"id": fmt.Sprintf("0000:00:%02x.0", i+1), "class": class, "device": dev, "vendor": "0x1af4",
			"subsystem_device": dev, "subsystem_vendor": "0x1af4", "iommugroup": -1,
		})
	}
	return out, nil
}

func registerRoot(r *registry) {
	r.handle("GET /", subdirIndex("version", "cluster", "nodes", "storage", "access", "pools"))
}
