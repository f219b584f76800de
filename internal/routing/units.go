package routing

// compilers make the outcome of a unit each, nil where there is nothing that it is about. They stand in the order in
// which they are called.
var compilers = [units]func(*view, key) *outcome{
	defaultClassUnit:   (*view).compileDefaultClass,
	classUnit:          (*view).compileClass,
	setsUnit:           (*view).compileSets,
	nodeUnit:           (*view).compileNode,
	meetingsUnit:       (*view).compileMeetings,
	addressUnit:        (*view).compileAddresses,
	ingressUnit:        (*view).compileIngress,
	hostUnit:           (*view).compileHost,
	gatewayClassUnit:   (*view).compileGatewayClass,
	gatewayUnit:        (*view).compileGateway,
	assignmentUnit:     (*view).compileAssignment,
	gatewayAddressUnit: (*view).compileGatewayAddress,
	portsUnit:          (*view).compilePorts,
	listenersUnit:      (*view).compileListeners,
	ingressStatusUnit:  (*view).compileIngressStatus,
	attachUnit:         (*view).compileAttached,
	entriesUnit:        (*view).compileEntries,
	routeUnit:          (*view).compileRoute,
	gatewayStatusUnit:  (*view).compileGatewayStatus,
	backendUnit:        (*view).compileBackend,
	certificateUnit:    (*view).compileCertificate,
	wantedUnit:         (*view).compileWanted,
}
