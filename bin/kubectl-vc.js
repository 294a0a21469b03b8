#!/usr/bin/env node
// A plugin of kubectl: "kubectl vc COMMAND" is "vc-manager COMMAND".
import { launch } from './launch.js';

launch('vc-manager/main');
