/** Starts the console. */

import "./app.js";
import { followLinks } from "./core/router.js";
import { applyTheme } from "./core/theme.js";
import { installTooltips } from "./parts/tooltips.js";

applyTheme();
followLinks();
installTooltips();
