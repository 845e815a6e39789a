// The parts of ECharts that the report uses; everything else stays out of the file.
export { init, use } from "echarts/core";
import { use } from "echarts/core";
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, LegendComponent, TooltipComponent, VisualMapContinuousComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";
use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, AriaComponent, GridComponent, LegendComponent,
  TooltipComponent, VisualMapContinuousComponent, SVGRenderer]);
