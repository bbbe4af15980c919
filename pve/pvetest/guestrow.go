package pvetest

// sizing returns the memory in bytes and the processors a guest has.
func (g *guest) sizing() (mem int64, cpus int) {
	mem = memoryMiB(g.Config) << 20
	count := func(key string) int { return max(atoi(g.Config[key]), 1) }
	cpus = count("sockets") * count("cores")
	if v := atoi(g.Config["vcpus"]); v > 0 {
		cpus = v
	}
	return mem, cpus
}

// bootDiskSize is the size of the first disk in the boot order.
func (g *guest) bootDiskSize() int64 {
	boot, ok := g.Config["boot"]
	if !ok {
		boot = defaultBoot(g.Config)
	}
	for _, key := range bootOrder(boot) {
		text, ok := g.Config[key]
		if !ok || !isDriveKey(key) {
			continue
		}
		d := parseDrive(key, text)
		if d.isCD() {
			continue
		}
		n, _ := parseSize(d.get("size"), 1)
		return n
	}
	return 0
}

// guestStats are a guest's figures as its node broadcasts them.
func (c *call) guestStats(g *guest) map[string]any {
	mem, cpus := g.sizing()
	row := map[string]any{
		"status": "stopped", "name": g.name(), "maxmem": mem, "maxcpu": cpus, "maxdisk": g.bootDiskSize(),
		"disk": 0, "mem": 0, "memhost": 0, "cpu": 0, "uptime": 0, "netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0,
	}
	if g.Running {
		row["status"] = "running"
		row["uptime"] = max(c.now.Unix()-g.Started, 0)
		row["mem"], row["memhost"], row["cpu"] = mem/4, mem/3, 0.01
	}
	return row
}
