/** Base of all components: no shadow root, so that one style sheet serves the whole console. */

import { LitElement } from "lit";

export abstract class Part extends LitElement {
  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}
