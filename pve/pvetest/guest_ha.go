package pvetest

import "strconv"

// managed tells whether power calls for a guest are requests to the high
// availability manager only.
func (cl *cluster) managed(vmid int) bool {
	r := cl.HA["vm:"+strconv.Itoa(vmid)]
	return r != nil && r.State != "ignored"
}

// haOf is what a guest's status tells of its high availability.
func (cl *cluster) haOf(vmid int) map[string]any {
	if cl.managed(vmid) {
		return map[string]any{"managed": 1, "state": nil}
	}
	return map[string]any{"managed": 0}
}

// manage makes a guest a resource of high availability.
func (cl *cluster) manage(vmid int, started bool) {
	state := "stopped"
	if started {
		state = "started"
	}
	if cl.HA == nil {
		cl.HA = map[string]*haResource{}
	}
	id := "vm:" + strconv.Itoa(vmid)
	cl.HA[id] = &haResource{SID: id, State: state, Config: section{}}
}

// request changes the state that is asked for.
func (cl *cluster) request(vmid int, state string) {
	if r := cl.HA["vm:"+strconv.Itoa(vmid)]; r != nil {
		r.State = state
	}
}

// RunHA lets the high availability manager do its work once: guests that are
// asked to be started start, and those that are asked to be stopped stop. It
// returns those it changed. Without it requests stay requests.
func (s *Server) RunHA() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []int
	for _, vmid := range sortedKeys(s.state.Guests) {
		g, r := s.state.Guests[vmid], s.state.HA["vm:"+strconv.Itoa(vmid)]
		if r == nil || g.Container || r.State == "ignored" || r.State == "disabled" || s.state.Nodes[g.Node].Offline {
			continue
		}
		want := r.State == "started"
		if g.Running == want {
			continue
		}
		c := s.inside(g.Node)
		if want && c.start(&task{}, g, false) != nil {
			continue
		}
		if !want {
			g.stop()
		}
		changed = append(changed, vmid)
	}
	return changed
}
