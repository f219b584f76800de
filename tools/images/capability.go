package images

// fileCapability is the extended attribute with what a program may that is not run by root.
const fileCapability = "security.capability"

// mayBindLowPorts is the file capability cap_net_bind_service=p: www-data binds port 80 on
// the node's network with it. It is permitted, not effective, so that the program also
// starts in a container without that capability.
const mayBindLowPorts = "\x00\x00\x00\x02" + lowPorts // revision 2

// bindsLowPorts is cap_net_bind_service=ep, for a program that knows nothing of capabilities:
// it does not start in a container without it.
const bindsLowPorts = "\x01\x00\x00\x02" + lowPorts // revision 2, effective

const lowPorts = "\x00\x04\x00\x00" + "\x00\x00\x00\x00" + // permitted: bit 10; inheritable: none
	"\x00\x00\x00\x00" + "\x00\x00\x00\x00" // the bits from 32

// bindLowPorts has a program of the tree bind ports below 1024 as any user, where its container may.
func (t tree) bindLowPorts(program string) {
	entry := t[program]
	entry.xattrs = map[string]string{fileCapability: bindsLowPorts}
	t[program] = entry
}
