const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry');
(async () => {
  const registry = new SchemaRegistry({ host: process.argv[2] });
  const out = {};
  const avro = { type: 'record', name: 'Npm', namespace: 'x', fields: [{ name: 'a', type: 'string' }] };
  const { id } = await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(avro) }, { subject: 'npm-avro' });
  out.avro = await registry.decode(await registry.encode(id, { a: 'x' }));
  const json = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false };
  const j = await registry.register({ type: SchemaType.JSON, schema: JSON.stringify(json) }, { subject: 'npm-json' });
  out.json = await registry.decode(await registry.encode(j.id, { a: 3 }));
  const proto = 'syntax = "proto3"; package x; message M { string a = 1; repeated int32 b = 2; }';
  const p = await registry.register({ type: SchemaType.PROTOBUF, schema: proto }, { subject: 'npm-proto' });
  out.proto = await registry.decode(await registry.encode(p.id, { a: 'y', b: [1, 2] }));
  out.latest = (await registry.getLatestSchemaId('npm-avro')) === id;
  out.found = (await registry.getRegistryId('npm-avro', 1)) === id;
  out.byschema = (await registry.getRegistryIdBySchema('npm-avro', { type: SchemaType.AVRO, schema: JSON.stringify(avro) })) === id;
  try {
    await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify({ ...avro, fields: [{ name: 'b', type: 'int' }] }) }, { subject: 'npm-avro' });
  } catch (error) { out.refused = error.message.slice(0, 40); }
  console.log(JSON.stringify(out));
})().catch(e => { console.error(e); process.exit(1); });
