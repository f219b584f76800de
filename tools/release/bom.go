package main

import (
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"github.com/CycloneDX/cyclonedx-go"
)

func (r *release) bomFile(name string) string { return r.named(name, ".cdx.json") }

// writeBOM lists the modules that were compiled into the programs, as the
// programs say themselves, in CycloneDX 1.6.
func (r *release) writeBOM(name string, programs []string) error {
	parts := map[string]cyclonedx.Component{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("reading what is in %s: %w", program, err)
		}
		for _, c := range compiledIn(info) {
			parts[c.PackageURL] = c
		}
	}
	list := []cyclonedx.Component{}
	for _, url := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, parts[url])
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: r.version,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}}
	bom.Components = &list
	out, err := os.Create(r.path(r.bomFile(name)))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return out.Close()
}

// compiledIn are the modules of a program, and the standard library.
func compiledIn(info *debug.BuildInfo) []cyclonedx.Component {
	out := []cyclonedx.Component{library("std", info.GoVersion)}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		out = append(out, library(module.Path, module.Version))
	}
	return out
}

// library is a Go module by its package URL:
// https://github.com/package-url/purl-spec/blob/main/types-doc/golang-definition.md.
func library(path, version string) cyclonedx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
