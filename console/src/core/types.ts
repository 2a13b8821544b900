/** Answers of the API, as docs/console-api.md describes them. */

export interface Page<Row> {
  items: Row[];
  total: number;
  page: number;
  size: number;
}

export interface Session {
  user: string | null;
  is_logged_in: boolean;
  login: { required: boolean; methods: string[]; oidc_url?: string | null };
  role: string | null;
  rights: { read: boolean; messages: boolean; write: boolean };
  masked: boolean;
  csrf_token: string;
  cluster_id: string | null;
  version: string;
  features: Record<string, boolean>;
}

export type Health = "ok" | "warning" | "critical";
/** "unreachable": no node answers, and all other figures are missing. */
export type LiveHealth = Health | "unreachable";

export interface Overview {
  cluster_id: string;
  controller: number | null;
  brokers: { total: number; alive: number };
  topics: number;
  partitions: number;
  groups: number | null;
  offline_partitions: number;
  under_replicated_partitions: number;
  under_min_isr_partitions: number | null;
  bytes: number | null;
  health: { state: Health; findings: { severity: string; title: string; link: string | null }[] };
}

export interface LivePoint {
  time: number;
  records_in_per_second?: number | null;
  bytes_in_per_second?: number | null;
  bytes_out_per_second?: number | null;
  lag?: number | null;
  brokers_alive?: number;
  brokers_total?: number;
  offline_partitions?: number;
  under_replicated_partitions?: number;
  health: LiveHealth;
  topics?: { name: string; records_in_per_second: number }[];
  groups?: { id: string; lag: number | null; state: string }[];
}

export interface Setting {
  name: string;
  value: string | null;
  source: string;
  is_default: boolean;
  is_sensitive: boolean;
  is_read_only: boolean;
  documentation: string | null;
  synonyms: { name: string; value: string | null; source: string }[];
}

export interface Broker {
  id: number;
  host: string;
  port: number;
  rack: string | null;
  is_controller: boolean;
  is_alive: boolean;
  leaders: number;
  replicas: number;
  out_of_sync: number;
  bytes: number | null;
}

export interface LogDirectory {
  path: string;
  total_bytes: number | null;
  usable_bytes: number | null;
  replicas: number;
  bytes: number;
  error: string | null;
}

export interface BrokerDetail extends Broker {
  /** Null while the broker does not answer. */
  log_dirs: LogDirectory[] | null;
  settings: Setting[] | null;
}

export interface QuorumReplica {
  id: number;
  log_end_offset: number;
  lag: number;
  last_fetch: number | null;
  last_caught_up: number | null;
  endpoints?: string[];
}

export interface Quorum {
  leader: number;
  epoch: number;
  high_watermark: number;
  voters: QuorumReplica[];
  observers: QuorumReplica[];
}

export interface Topic {
  name: string;
  id: string;
  partitions: number;
  replication_factor: number;
  under_replicated: number;
  offline: number;
  is_internal: boolean;
  records: number | null;
  bytes: number | null;
}

export interface Partition {
  partition: number;
  leader: number | null;
  leader_epoch: number;
  replicas: number[];
  isr: number[];
  offline: number[];
  first_offset: number | null;
  last_offset: number | null;
  bytes: number | null;
}

export interface TopicDetail extends Topic {
  partition_list: Partition[];
  settings: Setting[];
  link_schema: string | null;
}

export interface Field {
  type: "json" | "avro" | "protobuf" | "json-schema" | "text" | "hex" | "null";
  value: unknown;
  schema_id?: number | null;
  error?: string | null;
  truncated?: boolean;
}

export interface Message {
  partition: number;
  offset: number;
  timestamp: number;
  timestamp_type: string;
  key: Field;
  value: Field;
  headers: { name: string; value: Field }[];
  size: number;
  masked: boolean;
}

export interface Messages {
  items: Message[];
  next: Record<string, number>;
  previous: Record<string, number>;
  scanned: number;
  is_complete: boolean;
}

export interface Group {
  id: string;
  kind: string;
  protocol_type: string;
  state: string;
  members: number | null;
  lag: number | null;
  coordinator: number | null;
}

export interface GroupOffset {
  topic: string;
  partition: number;
  committed: number | null;
  last_offset: number | null;
  lag: number | null;
  member: string | null;
}

export interface GroupMember {
  id: string;
  instance_id: string | null;
  client_id: string;
  host: string;
  partitions: { topic: string; partition: number }[];
}

export interface GroupDetail extends Group {
  assignor: string | null;
  epoch: number | null;
  member_list: GroupMember[];
  offsets: GroupOffset[];
  lag_history: [number, number][];
  can_reset: boolean;
  why_not: string | null;
}

export interface Transaction {
  transactional_id: string;
  coordinator: number;
  producer_id: number;
  state: string;
  started: number | null;
  timeout_ms: number | null;
  partitions: number | null;
}

export interface HangingTransaction {
  topic: string;
  partition: number;
  producer_id: number;
  producer_epoch: number;
  start_offset: number;
  last_timestamp: number;
  age_ms: number;
}

export interface Acl {
  principal: string;
  host: string;
  operation: string;
  permission: string;
  resource_type: string;
  resource_name: string;
  pattern_type: string;
}

export interface User {
  name: string;
  mechanisms: { mechanism: string; iterations: number }[];
}

export interface Quota {
  entity: Record<string, string | null>;
  quotas: Record<string, number>;
}

export interface Role {
  name: string;
  rules: string[];
  bindings: string[];
}

export interface Subject {
  subject: string;
  versions: number;
  latest: number;
  type: string;
  id: number;
  compatibility: string;
}

export interface SubjectDetail {
  subject: string;
  versions: { version: number; id: number }[];
  latest: SchemaVersion;
  compatibility: string;
  compatibility_source: string;
}

export interface SchemaVersion {
  version: number;
  id: number;
  type: string;
  schema: string;
  references: SchemaReference[];
}

export interface SchemaReference {
  name: string;
  subject: string;
  version: number;
}

export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
}

export interface SchemaCheck {
  is_compatible: boolean;
  messages: string[];
  lines: DiffLine[];
}

export interface Connector {
  name: string;
  type: string;
  class: string;
  state: string;
  tasks: number;
  failed_tasks: number;
  worker: string | null;
}

export interface ConnectorDetail extends Connector {
  config: Record<string, string>;
  trace: string | null;
  task_list: { id: number; state: string; worker: string; trace: string | null }[];
  topics: string[];
  offsets: unknown[];
}

export interface Mirror {
  source: string;
  target: string;
  last_heartbeat: number | null;
  age_ms: number | null;
  topics: { name: string; partitions: number }[];
}

export interface AuditEntry {
  time: number;
  principal: string | null;
  operation: string;
  /** Null for a login. */
  resource: string | null;
  allowed: boolean;
  host: string;
  api: string;
  reason: string | null;
}

export interface Reassignment {
  topic: string;
  partition: number;
  replicas: number[];
  adding: number[];
  removing: number[];
}

export interface Layout {
  brokers: { id: number; replicas: number; leaders: number; bytes: number | null }[];
  partitions: { topic: string; partition: number; replicas: number[] }[];
}

export interface Finding {
  id: string;
  severity: "info" | "warning" | "critical";
  title: string;
  detail: string;
  command: string | null;
  fix: { method: "POST" | "PUT" | "PATCH" | "DELETE"; path: string; body: Record<string, unknown> } | null;
}

/** What a change answers, as a trial and for good. */
export interface Outcome {
  plan: string[];
  command: string;
  warnings?: string[];
  result?: Record<string, unknown>;
  offsets?: { topic: string; partition: number; before: number | null; after: number; lag_after: number | null }[];
  before?: Layout;
  after?: Layout;
  goals?: Goal[];
}

/** A plan of the balancer that runs, or that was interrupted. */
export interface BalanceRun {
  state: "idle" | "running" | "interrupted" | "done";
  user?: string | null;
  step?: number | null;
  steps?: number | null;
  partitions_done?: number | null;
  partitions?: number | null;
  message?: string | null;
}

/** A goal of the balancer: how many partitions or brokers break it, before and after. */
export interface Goal {
  goal: string;
  is_hard: boolean;
  violations_before: number;
  violations_after: number;
  left: string[];
}
