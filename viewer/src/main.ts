import { App } from "./app";
import { pipelinesPage } from "./pages/pipelines";
import { processingPage } from "./pages/processing";
import { runPage } from "./pages/run";
import { runsPage } from "./pages/runs";
import "./style.css";

const app = new App((app, place) => {
  if (place.isProcessing) return processingPage(app);
  if (place.fqn && place.runId) return runPage(app, place.fqn, place.runId, place);
  return place.fqn ? runsPage(app, place.fqn) : pipelinesPage(app, place);
});
void app.start();
