/** The last values of an endless stream. Memory is bounded by the capacity. */

export class Ring<Value> {
  private values: Value[] = [];

  constructor(readonly capacity: number) {}

  get length(): number {
    return this.values.length;
  }

  get last(): Value | undefined {
    return this.values[this.values.length - 1];
  }

  push(...added: Value[]): void {
    this.values.push(...added);
    if (this.values.length > this.capacity) this.values = this.values.slice(-this.capacity);
  }

  clear(): void {
    this.values = [];
  }

  toArray(): readonly Value[] {
    return this.values;
  }
}
