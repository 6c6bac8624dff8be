import { App } from "./app";
import { configurationPage } from "./pages/configuration";
import { filesPage } from "./pages/files";
import { letterPage } from "./pages/letter";
import { lettersPage } from "./pages/letters";
import { pipelinesPage } from "./pages/pipelines";
import { processingPage } from "./pages/processing";
import { runPage } from "./pages/run";
import { runsPage } from "./pages/runs";
import { startPage } from "./pages/start";
import { DEFAULT } from "./start/filter";
import "./style.css";

const app = new App((app, place) => {
  if (place.isProcessing) return processingPage(app);
  if (place.files) return filesPage(app, place.files);
  if (place.letters) return place.letters.line === undefined ? lettersPage(app, place.letters) : letterPage(app, place.letters);
  if (place.isConfiguration) return configurationPage(app, place.chosenFor ?? "");
  if (place.fqn && place.runId) return runPage(app, place.fqn, place.runId, place);
  if (place.fqn) return runsPage(app, place.fqn);
  return place.isList ? pipelinesPage(app, place) : startPage(app, place.filter ?? DEFAULT);
});
app.start();
