export { describeWithEngine } from './describe-with-engine.ts';
export { type DockerOptions, type DockerResult, docker, mustDocker } from './docker.ts';
export { type Engine, type EngineInfo, startEngine } from './engine.ts';
