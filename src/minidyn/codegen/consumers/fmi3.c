/*
 * FMI 3.0 for Model Exchange and Co-Simulation around the functions of model.c; written by minidyn.
 *
 * The robot as a plant: tau drives q and dq by its forward dynamics. Beside it, independent of the plant, the torque
 * tau_ref of a reference motion q_ref, dq_ref, ddq_ref by its inverse dynamics, for feedforward. Co-Simulation
 * integrates by Runge and Kutta's method of fourth order, in steps of at most `step` seconds, tau held.
 * Memory is allocated when an instance is made and for copies of its state, nowhere else.
 */
#include "fmi3Functions.h"
#include "fmu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAU, Q, DER_Q, DQ, DDQ, Q_REF, DQ_REF, DDQ_REF, TAU_REF, GROUPS };
enum { STEP = 1 + GROUPS * FMU_N, VALUES };

typedef struct {
    double value[VALUES];          /* by value reference: time, the groups above joint by joint, step */
    double memory[FMU_MEMORY + 1]; /* what drives remember, for the plant ... */
    double memory_ref[FMU_MEMORY + 1];
    double last_q[FMU_N], last_ref[FMU_N], last_time;
    int begun, changed;
} Model;

static double *group(Model *m, int which)
{
    return m->value + 1 + which * FMU_N;
}

static void accelerate(Model *m, const double *q, const double *dq, double *ddq)
{
    FMU_FORWARD(q, dq, group(m, TAU), m->memory, ddq);
}

static void compute(Model *m)
{
    if (!m->changed) return;
    memcpy(group(m, DER_Q), group(m, DQ), sizeof(double) * FMU_N);
    accelerate(m, group(m, Q), group(m, DQ), group(m, DDQ));
    FMU_INVERSE(group(m, Q_REF), group(m, DQ_REF), group(m, DDQ_REF), m->memory_ref, group(m, TAU_REF));
    m->changed = 0;
}

static void remember(Model *m) /* after a step that counts */
{
    if (m->begun) {
        FMU_REMEMBER(m->last_q, group(m, Q), m->value[0] - m->last_time, m->memory);
        FMU_REMEMBER(m->last_ref, group(m, Q_REF), m->value[0] - m->last_time, m->memory_ref);
    }
    memcpy(m->last_q, group(m, Q), sizeof m->last_q);
    memcpy(m->last_ref, group(m, Q_REF), sizeof m->last_ref);
    m->last_time = m->value[0];
    m->begun = 1;
    m->changed = 1;
}

static void begin(Model *m)
{
    memset(m, 0, sizeof *m);
    m->value[STEP] = 1e-3;
    m->changed = 1;
}

static Model *make(fmi3String token)
{
    Model *m = strcmp(token ? token : "", FMU_TOKEN) ? NULL : malloc(sizeof *m);
    if (m) begin(m);
    return m;
}

/* ------------------------------------------------------------------ life of an instance */

const char *fmi3GetVersion(void)
{
    return fmi3Version;
}

fmi3Status fmi3SetDebugLogging(fmi3Instance i, fmi3Boolean on, size_t n, const fmi3String c[])
{
    (void)i; (void)on; (void)n; (void)c;
    return fmi3OK;
}

fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                          fmi3Boolean logging, fmi3InstanceEnvironment environment,
                                          fmi3LogMessageCallback log)
{
    (void)name; (void)resources; (void)visible; (void)logging; (void)environment; (void)log;
    return make(token);
}

fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                         fmi3Boolean logging, fmi3Boolean events, fmi3Boolean early,
                                         const fmi3ValueReference required[], size_t n,
                                         fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
                                         fmi3IntermediateUpdateCallback update)
{
    (void)name; (void)resources; (void)visible; (void)logging; (void)events; (void)early;
    (void)required; (void)n; (void)environment; (void)log; (void)update;
    return make(token);
}

fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources,
                                               fmi3Boolean visible, fmi3Boolean logging,
                                               fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
                                               fmi3ClockUpdateCallback update, fmi3LockPreemptionCallback lock,
                                               fmi3UnlockPreemptionCallback unlock)
{
    (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment;
    (void)log; (void)update; (void)lock; (void)unlock;
    return NULL;
}

void fmi3FreeInstance(fmi3Instance i)
{
    free(i);
}

fmi3Status fmi3EnterInitializationMode(fmi3Instance i, fmi3Boolean t, fmi3Float64 tolerance, fmi3Float64 start,
                                       fmi3Boolean s, fmi3Float64 stop)
{
    (void)t; (void)tolerance; (void)s; (void)stop;
    ((Model *)i)->value[0] = start;
    return fmi3OK;
}

fmi3Status fmi3ExitInitializationMode(fmi3Instance i)
{
    remember(i);
    return fmi3OK;
}

fmi3Status fmi3Reset(fmi3Instance i)
{
    begin(i);
    return fmi3OK;
}

#define NOTHING(name) \
    fmi3Status name(fmi3Instance i) \
    { \
        (void)i; \
        return fmi3OK; \
    }
NOTHING(fmi3EnterEventMode)
NOTHING(fmi3Terminate)
NOTHING(fmi3EnterConfigurationMode)
NOTHING(fmi3ExitConfigurationMode)
NOTHING(fmi3EvaluateDiscreteStates)
NOTHING(fmi3EnterContinuousTimeMode)
NOTHING(fmi3EnterStepMode)

/* ------------------------------------------------------------------ values */

fmi3Status fmi3GetFloat64(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3Float64 v[], size_t nv)
{
    size_t k;
    if (n != nv) return fmi3Error;
    compute(i);
    for (k = 0; k < n; k++) {
        if (r[k] >= VALUES) return fmi3Error;
        v[k] = ((Model *)i)->value[r[k]];
    }
    return fmi3OK;
}

fmi3Status fmi3SetFloat64(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3Float64 v[], size_t nv)
{
    size_t k;
    if (n != nv) return fmi3Error;
    for (k = 0; k < n; k++) {
        const int which = r[k] ? (int)(r[k] - 1) / FMU_N : -1;
        const int given = which == TAU || which == Q || which == DQ || which == Q_REF || which == DQ_REF || which == DDQ_REF;
        if (!given && !(r[k] == STEP && v[k] > 0.0)) return fmi3Error;
        ((Model *)i)->value[r[k]] = v[k];
    }
    ((Model *)i)->changed = 1;
    return fmi3OK;
}

#define NO_VALUES(type) \
    fmi3Status fmi3Get##type(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3##type v[], size_t nv) \
    { \
        (void)i; (void)r; (void)v; \
        return n || nv ? fmi3Error : fmi3OK; \
    } \
    fmi3Status fmi3Set##type(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3##type v[], size_t nv) \
    { \
        (void)i; (void)r; (void)v; \
        return n || nv ? fmi3Error : fmi3OK; \
    }
NO_VALUES(Float32)
NO_VALUES(Int8)
NO_VALUES(UInt8)
NO_VALUES(Int16)
NO_VALUES(UInt16)
NO_VALUES(Int32)
NO_VALUES(UInt32)
NO_VALUES(Int64)
NO_VALUES(UInt64)
NO_VALUES(Boolean)
NO_VALUES(String)

fmi3Status fmi3GetBinary(fmi3Instance i, const fmi3ValueReference r[], size_t n, size_t s[], fmi3Binary v[], size_t nv)
{
    (void)i; (void)r; (void)s; (void)v;
    return n || nv ? fmi3Error : fmi3OK;
}

fmi3Status fmi3SetBinary(fmi3Instance i, const fmi3ValueReference r[], size_t n, const size_t s[], const fmi3Binary v[],
                         size_t nv)
{
    (void)i; (void)r; (void)s; (void)v;
    return n || nv ? fmi3Error : fmi3OK;
}

fmi3Status fmi3GetClock(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3Clock v[])
{
    (void)i; (void)r; (void)v;
    return n ? fmi3Error : fmi3OK;
}

fmi3Status fmi3SetClock(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3Clock v[])
{
    (void)i; (void)r; (void)v;
    return n ? fmi3Error : fmi3OK;
}

/* ------------------------------------------------------------------ copies of an instance's state */

fmi3Status fmi3GetFMUState(fmi3Instance i, fmi3FMUState *state)
{
    if (!*state) *state = malloc(sizeof(Model));
    if (!*state) return fmi3Error;
    memcpy(*state, i, sizeof(Model));
    return fmi3OK;
}

fmi3Status fmi3SetFMUState(fmi3Instance i, fmi3FMUState state)
{
    memcpy(i, state, sizeof(Model));
    return fmi3OK;
}

fmi3Status fmi3FreeFMUState(fmi3Instance i, fmi3FMUState *state)
{
    (void)i;
    free(*state);
    *state = NULL;
    return fmi3OK;
}

fmi3Status fmi3SerializedFMUStateSize(fmi3Instance i, fmi3FMUState state, size_t *size)
{
    (void)i; (void)state;
    *size = sizeof(Model);
    return fmi3OK;
}

fmi3Status fmi3SerializeFMUState(fmi3Instance i, fmi3FMUState state, fmi3Byte bytes[], size_t size)
{
    (void)i;
    if (size < sizeof(Model)) return fmi3Error;
    memcpy(bytes, state, sizeof(Model));
    return fmi3OK;
}

fmi3Status fmi3DeserializeFMUState(fmi3Instance i, const fmi3Byte bytes[], size_t size, fmi3FMUState *state)
{
    (void)i;
    if (size != sizeof(Model)) return fmi3Error;
    if (!*state) *state = malloc(sizeof(Model));
    if (!*state) return fmi3Error;
    memcpy(*state, bytes, sizeof(Model));
    return fmi3OK;
}

/* ------------------------------------------------------------------ Model Exchange */

fmi3Status fmi3UpdateDiscreteStates(fmi3Instance i, fmi3Boolean *more, fmi3Boolean *end, fmi3Boolean *nominals,
                                    fmi3Boolean *values, fmi3Boolean *next, fmi3Float64 *time)
{
    (void)i; (void)time;
    *more = *end = *nominals = *values = *next = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3CompletedIntegratorStep(fmi3Instance i, fmi3Boolean no_return, fmi3Boolean *event, fmi3Boolean *end)
{
    (void)no_return;
    remember(i);
    *event = *end = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3SetTime(fmi3Instance i, fmi3Float64 time)
{
    ((Model *)i)->value[0] = time;
    return fmi3OK;
}

fmi3Status fmi3SetContinuousStates(fmi3Instance i, const fmi3Float64 x[], size_t n)
{
    if (n != 2 * FMU_N) return fmi3Error;
    memcpy(group(i, Q), x, sizeof(double) * FMU_N);
    memcpy(group(i, DQ), x + FMU_N, sizeof(double) * FMU_N);
    ((Model *)i)->changed = 1;
    return fmi3OK;
}

fmi3Status fmi3GetContinuousStates(fmi3Instance i, fmi3Float64 x[], size_t n)
{
    if (n != 2 * FMU_N) return fmi3Error;
    memcpy(x, group(i, Q), sizeof(double) * FMU_N);
    memcpy(x + FMU_N, group(i, DQ), sizeof(double) * FMU_N);
    return fmi3OK;
}

fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance i, fmi3Float64 dx[], size_t n)
{
    if (n != 2 * FMU_N) return fmi3Error;
    compute(i);
    memcpy(dx, group(i, DQ), sizeof(double) * FMU_N);
    memcpy(dx + FMU_N, group(i, DDQ), sizeof(double) * FMU_N);
    return fmi3OK;
}

fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance i, fmi3Float64 x[], size_t n)
{
    size_t k;
    (void)i;
    for (k = 0; k < n; k++) x[k] = 1.0;
    return fmi3OK;
}

fmi3Status fmi3GetEventIndicators(fmi3Instance i, fmi3Float64 z[], size_t n)
{
    (void)i; (void)z;
    return n ? fmi3Error : fmi3OK;
}

fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance i, size_t *n)
{
    (void)i;
    *n = 0;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance i, size_t *n)
{
    (void)i;
    *n = 2 * FMU_N;
    return fmi3OK;
}

/* ------------------------------------------------------------------ Co-Simulation */

static void advance(Model *m, double h) /* one step of Runge and Kutta */
{
    static const double part[4] = {0.0, 0.5, 0.5, 1.0}, weight[4] = {1.0, 2.0, 2.0, 1.0};
    double *q = group(m, Q), *dq = group(m, DQ), v[FMU_N], a[FMU_N], x[FMU_N], sum_v[FMU_N], sum_a[FMU_N];
    int stage, k;
    memset(v, 0, sizeof v);
    memset(a, 0, sizeof a);
    memset(sum_v, 0, sizeof sum_v);
    memset(sum_a, 0, sizeof sum_a);
    for (stage = 0; stage < 4; stage++) {
        for (k = 0; k < FMU_N; k++) {
            x[k] = q[k] + part[stage] * h * v[k];
            v[k] = dq[k] + part[stage] * h * a[k];
        }
        accelerate(m, x, v, a);
        for (k = 0; k < FMU_N; k++) {
            sum_v[k] += weight[stage] * v[k];
            sum_a[k] += weight[stage] * a[k];
        }
    }
    for (k = 0; k < FMU_N; k++) {
        q[k] += h / 6.0 * sum_v[k];
        dq[k] += h / 6.0 * sum_a[k];
    }
    remember(m);
}

fmi3Status fmi3DoStep(fmi3Instance i, fmi3Float64 now, fmi3Float64 size, fmi3Boolean no_return, fmi3Boolean *event,
                      fmi3Boolean *end, fmi3Boolean *early, fmi3Float64 *last)
{
    Model *m = i;
    const double steps = ceil(size / m->value[STEP] - 1e-9);
    double k;
    (void)no_return;
    for (k = 0.0; k < steps; k += 1.0) advance(m, size / steps);
    m->value[0] = *last = now + size;
    *event = *end = *early = fmi3False;
    return fmi3OK;
}

/* ------------------------------------------------------------------ what this FMU does not have */

fmi3Status fmi3GetOutputDerivatives(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3Int32 o[],
                                    fmi3Float64 v[], size_t nv)
{
    (void)i; (void)r; (void)n; (void)o; (void)v; (void)nv;
    return fmi3Error;
}

fmi3Status fmi3ActivateModelPartition(fmi3Instance i, fmi3ValueReference r, fmi3Float64 t)
{
    (void)i; (void)r; (void)t;
    return fmi3Error;
}

fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance i, fmi3ValueReference r, size_t *n)
{
    (void)i; (void)r; (void)n;
    return fmi3Error;
}

fmi3Status fmi3GetVariableDependencies(fmi3Instance i, fmi3ValueReference r, size_t e[], fmi3ValueReference s[],
                                       size_t f[], fmi3DependencyKind k[], size_t n)
{
    (void)i; (void)r; (void)e; (void)s; (void)f; (void)k; (void)n;
    return fmi3Error;
}

#define NO_DERIVATIVES(name) \
    fmi3Status name(fmi3Instance i, const fmi3ValueReference u[], size_t nu, const fmi3ValueReference x[], size_t nx, \
                    const fmi3Float64 s[], size_t ns, fmi3Float64 d[], size_t nd) \
    { \
        (void)i; (void)u; (void)nu; (void)x; (void)nx; (void)s; (void)ns; (void)d; (void)nd; \
        return fmi3Error; \
    }
NO_DERIVATIVES(fmi3GetDirectionalDerivative)
NO_DERIVATIVES(fmi3GetAdjointDerivative)

fmi3Status fmi3GetIntervalDecimal(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3Float64 v[],
                                  fmi3IntervalQualifier q[])
{
    (void)i; (void)r; (void)n; (void)v; (void)q;
    return fmi3Error;
}

fmi3Status fmi3GetIntervalFraction(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3UInt64 c[],
                                   fmi3UInt64 s[], fmi3IntervalQualifier q[])
{
    (void)i; (void)r; (void)n; (void)c; (void)s; (void)q;
    return fmi3Error;
}

fmi3Status fmi3GetShiftDecimal(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3Float64 v[])
{
    (void)i; (void)r; (void)n; (void)v;
    return fmi3Error;
}

fmi3Status fmi3GetShiftFraction(fmi3Instance i, const fmi3ValueReference r[], size_t n, fmi3UInt64 c[], fmi3UInt64 s[])
{
    (void)i; (void)r; (void)n; (void)c; (void)s;
    return fmi3Error;
}

#define NO_TIMES(name) \
    fmi3Status name(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3Float64 v[]) \
    { \
        (void)i; (void)r; (void)n; (void)v; \
        return fmi3Error; \
    }
NO_TIMES(fmi3SetIntervalDecimal)
NO_TIMES(fmi3SetShiftDecimal)

#define NO_FRACTIONS(name) \
    fmi3Status name(fmi3Instance i, const fmi3ValueReference r[], size_t n, const fmi3UInt64 c[], const fmi3UInt64 s[]) \
    { \
        (void)i; (void)r; (void)n; (void)c; (void)s; \
        return fmi3Error; \
    }
NO_FRACTIONS(fmi3SetIntervalFraction)
NO_FRACTIONS(fmi3SetShiftFraction)
