package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	c := must(sr.NewClient(sr.URLs(os.Args[1])))
	v1 := sr.Schema{Schema: `{"type":"record","name":"G","fields":[{"name":"a","type":"string"}]}`}
	v2 := sr.Schema{Schema: `{"type":"record","name":"G","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}`}
	bad := sr.Schema{Schema: `{"type":"record","name":"G","fields":[{"name":"c","type":"string"}]}`}
	s1 := must(c.CreateSchema(ctx, "go-avro", v1))
	s2 := must(c.CreateSchema(ctx, "go-avro", v2))
	fmt.Println(s1.Version, s2.Version, s2.ID > s1.ID)
	fmt.Println(must(c.SchemaByID(ctx, s1.ID)).Schema == s1.Schema.Schema)
	fmt.Println(must(c.LookupSchema(ctx, "go-avro", v1)).Version)
	fmt.Println(must(c.SubjectVersions(ctx, "go-avro")))
	_, err := c.CreateSchema(ctx, "go-avro", bad)
	var re *sr.ResponseError
	fmt.Println(errors.As(err, &re), re.ErrorCode)
	fmt.Println(must(c.CheckCompatibility(ctx, "go-avro", -1, bad)).Is)
	for _, r := range c.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, "go-avro") {
		fmt.Println(r.Level, r.Err)
	}
	proto := must(c.CreateSchema(ctx, "go-proto", sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message M { string a = 1; }`}))
	fmt.Println(proto.Type, must(c.SupportedTypes(ctx)))
	fmt.Println(must(c.DeleteSubject(ctx, "go-avro", sr.SoftDelete)), must(c.DeleteSubject(ctx, "go-avro", sr.HardDelete)))
	for _, r := range c.Mode(ctx) {
		fmt.Println(r.Mode, r.Err)
	}
}
