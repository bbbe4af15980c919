package pvetest

import (
	"slices"
	"strings"
)

// builtinCPUs lists the processor models QEMU 10 knows, by vendor.
func builtinCPUs() map[string][]string {
	return map[string][]string{
		"default": strings.Fields(`host qemu64 max kvm32 qemu32 kvm64`),
		"AuthenticAMD": strings.Fields(`EPYC-Genoa EPYC-Rome-v5 phenom EPYC-Genoa-v2 EPYC-v3 EPYC-Milan-v3 Opteron_G4 EPYC-IBPB EPYC-Rome-v4 EPYC-Rome-v3
EPYC-v4 EPYC-Rome Opteron_G3 EPYC-Turin EPYC EPYC-Rome-v2 Opteron_G1 Opteron_G2 EPYC-v5 Opteron_G5 EPYC-Milan athlon EPYC-Milan-v2`),
		"GenuineIntel": strings.Fields(`Icelake-Server-v6 Skylake-Server Icelake-Server-v5 Broadwell-IBRS Cascadelake-Server-v2 Icelake-Client-noTSX
Skylake-Server-v4 Conroe Cascadelake-Server-noTSX core2duo Cooperlake Icelake-Server-v3 ClearwaterForest Nehalem Haswell-IBRS pentium2 Broadwell
Cooperlake-v2 Icelake-Server-v4 KnightsMill Cascadelake-Server Haswell-noTSX pentium3 Icelake-Server Skylake-Server-v5 Skylake-Client-noTSX-IBRS
Westmere Skylake-Server-IBRS Cascadelake-Server-v4 Skylake-Server-noTSX-IBRS GraniteRapids-v2 Haswell-noTSX-IBRS SierraForest SapphireRapids-v4
SandyBridge Westmere-IBRS pentium GraniteRapids SierraForest-v3 SapphireRapids IvyBridge Icelake-Server-noTSX Skylake-Client-v4 Broadwell-noTSX
SapphireRapids-v3 SandyBridge-IBRS Skylake-Client Nehalem-IBRS Haswell Broadwell-noTSX-IBRS Skylake-Client-IBRS GraniteRapids-v3 Penryn
Icelake-Client Cascadelake-Server-v5 486 IvyBridge-IBRS coreduo Icelake-Server-v7 SapphireRapids-v2 SierraForest-v2`),
	}
}

// abstractCPUs lists Proxmox's own models.
func abstractCPUs() []string {
	return []string{"x86-64-v2", "x86-64-v2-AES", "x86-64-v3", "x86-64-v4"}
}

// vmCPUFlags lists the flags a guest may switch.
func vmCPUFlags() []string {
	return strings.Fields(`aes amd-no-ssb amd-ssbd hv-evmcs hv-tlbflush ibpb md-clear nested-virt pcid pdpe1gb spec-ctrl ssbd virt-ssbd`)
}

// cpuProblem finds what is wrong with a guest's cpu option.
func (cl *cluster) cpuProblem(text string) string {
	p := parseProps(text, "cputype")
	model := p.get("cputype")
	if name, ok := strings.CutPrefix(model, "custom-"); ok {
		if cl.Sections["cpu-models"][model] == nil {
			return "Custom cputype '" + name + "' not found\n"
		}
	} else if model != "" && !slices.Contains(abstractCPUs(), model) {
		known := false
		for _, models := range builtinCPUs() {
			known = known || slices.Contains(models, model)
		}
		if !known {
			return "Built-in cputype '" + model + "' is not defined (missing 'custom-' prefix?)\n"
		}
	}
	for flag := range strings.SplitSeq(p.get("flags"), ";") {
		if flag != "" && !slices.Contains(vmCPUFlags(), strings.TrimLeft(flag, "+-")) {
			return "VM-specific CPU flags must be a subset of: " + strings.Join(vmCPUFlags(), ", ") + "\n"
		}
	}
	return ""
}

// cpuModels lists the models a node offers.
func cpuModels(c *call) (any, error) {
	out := []map[string]any{}
	models := builtinCPUs()
	for _, vendor := range sortedKeys(models) {
		for _, name := range models[vendor] {
			out = append(out, map[string]any{"name": name, "vendor": vendor, "custom": 0})
		}
	}
	for _, name := range abstractCPUs() {
		out = append(out, map[string]any{"name": name, "vendor": "default", "custom": 0, "abstract": 1})
	}
	for _, id := range sortedKeys(c.cl().Sections["cpu-models"]) {
		out = append(out, map[string]any{"name": id, "vendor": "default", "custom": 1})
	}
	return out, nil
}
