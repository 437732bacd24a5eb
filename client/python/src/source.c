/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/source.h"

#include "client/python/src/dtype.h"
#include "client/python/src/errors.h"
#include "client/python/src/keywords.h"
#include "client/python/src/message.h"
#include "client/python/src/wait.h"

#include <dlpack/dlpack.h>
#include <string.h>

#define CONTIGUOUS "make it dense first, as numpy.ascontiguousarray does"

/* ---- arrays as DLPack describes them ---- */

/* Do the elements of any order of axes lie without gaps? */
static bool is_dense(const DLTensor *tensor)
{
    uint32_t used = 0;
    int64_t expected = 1;
    for (int32_t i = 0; tensor->strides != NULL && i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return true;
        }
        used |= tensor->shape[i] == 1 ? UINT32_C(1) << i : 0;
    }
    while (tensor->strides != NULL && used != (UINT32_C(1) << tensor->ndim) - 1) {
        int32_t next = 0;
        while (next < tensor->ndim &&
               ((used & (UINT32_C(1) << next)) != 0 || tensor->strides[next] != expected)) {
            next++;
        }
        if (next == tensor->ndim) {
            return false;
        }
        used |= UINT32_C(1) << next;
        if (__builtin_mul_overflow(expected, tensor->shape[next], &expected)) {
            return false; /* No memory is so large. */
        }
    }
    return true;
}

static bool take_tensor(struct amb_py_source *source, const DLTensor *tensor)
{
    if (tensor->ndim < 0 || tensor->ndim > AMB_PY_DIMS) {
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions: up to %d can be published",
                     (int)tensor->ndim, AMB_PY_DIMS);
        return false;
    }
    if (!is_dense(tensor)) {
        PyErr_SetString(PyExc_ValueError,
                        "the array has gaps between its elements, or runs backwards: " CONTIGUOUS);
        return false;
    }
    void *stream = source->out.stream;
    enum amb_status status = amb_out_dlpack(&source->out, &source->tensor, tensor);
    if (status != AMB_OK) {
        PyErr_SetString(status == AMB_EKIND ? PyExc_TypeError : PyExc_ValueError,
                        status == AMB_EKIND ? "the array is in memory of another maker's device"
                                            : "this is no array that can be published");
        return false;
    }
    source->out.stream = stream;
    source->is_device = source->out.mem == AMB_MEM_CUDA || source->out.mem == AMB_MEM_CUDA_MANAGED;
    return true;
}

/* ---- the buffer protocol ---- */

static bool is_plain(const Py_buffer *view)
{
    return view->ndim == 1 && view->itemsize == 1 &&
           (view->strides == NULL || view->strides[0] == 1) &&
           (view->format == NULL || strcmp(view->format, "B") == 0);
}

static bool take_view(struct amb_py_source *source)
{
    const Py_buffer *view = &source->hold.view;
    source->out.mem = AMB_MEM_HOST;
    source->out.data = view->buf;
    source->out.len = (size_t)view->len;
    if (is_plain(view)) {
        return true;
    }
    struct amb_tensor element = {.code = 0};
    if (view->suboffsets != NULL ||
        !amb_py_dtype_of(view->format, (size_t)view->itemsize, &element)) {
        PyErr_Format(PyExc_TypeError,
                     "elements of '%s' cannot be published: numbers of this machine's byte order, "
                     "bool and bytes can",
                     view->format != NULL ? view->format : "B");
        return false;
    }
    int64_t shape[AMB_PY_DIMS], strides[AMB_PY_DIMS];
    bool has_strides = view->ndim != 0 && view->strides != NULL; /* ctypes says none: C order. */
    for (int i = 0; i < view->ndim && i < AMB_PY_DIMS; i++) {
        shape[i] = view->shape[i];
        strides[i] = has_strides ? view->strides[i] / view->itemsize : 0;
        if (has_strides && view->strides[i] % view->itemsize != 0 && view->shape[i] > 1) {
            PyErr_SetString(PyExc_ValueError, "the array's elements overlap: " CONTIGUOUS);
            return false;
        }
    }
    const DLTensor tensor = {
        .data = view->buf,
        .device = {.device_type = kDLCPU},
        .ndim = view->ndim,
        .dtype = {.code = element.code, .bits = element.bits, .lanes = element.lanes},
        .shape = shape,
        .strides = has_strides ? strides : NULL};
    return take_tensor(source, &tensor);
}

/* ---- streams ---- */

bool amb_py_stream(PyObject *stream, void **out)
{
    static const char *const names[] = {"cuda_stream", "ptr", "handle"}; /* torch, CuPy, Numba */
    *out = NULL;
    if (stream == NULL || stream == Py_None) {
        return true;
    }
    PyObject *number = PyLong_Check(stream) ? Py_NewRef(stream) : NULL;
    PyObject *pair = NULL;
    if (number == NULL && PyObject_HasAttrString(stream, "__cuda_stream__")) {
        pair = PyObject_CallMethod(stream, "__cuda_stream__", NULL);
        number = pair != NULL ? PySequence_GetItem(pair, 1) : NULL;
    }
    for (size_t i = 0; number == NULL && pair == NULL && i < sizeof(names) / sizeof(names[0]);
         i++) {
        PyErr_Clear();
        number = PyObject_GetAttrString(stream, names[i]);
    }
    Py_XDECREF(pair);
    if (number != NULL && !PyLong_Check(number) && PyObject_HasAttrString(number, "value")) {
        PyObject *value = PyObject_GetAttrString(number, "value"); /* Of ctypes, by Numba. */
        Py_DECREF(number);
        number = value == Py_None ? PyLong_FromLong(0) : Py_XNewRef(value);
        Py_XDECREF(value);
    }
    if (number != NULL && PyLong_Check(number)) {
        *out = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(number);
    } else {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "stream: an int, a stream of torch, CuPy or Numba, or an "
                                         "object with __cuda_stream__");
    }
    Py_XDECREF(number);
    return PyErr_Occurred() == NULL;
}

/* ---- DLPack ---- */

/* Its device's type, or -1: an exception is raised. */
static long device_of(PyObject *data)
{
    PyObject *pair = PyObject_CallMethod(data, "__dlpack_device__", NULL);
    PyObject *first = pair != NULL ? PySequence_GetItem(pair, 0) : NULL;
    PyObject *number = first != NULL ? PyNumber_Index(first) : NULL;
    long type = number != NULL ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    Py_XDECREF(first);
    Py_XDECREF(pair);
    return type;
}

/* Libraries of before version 1 know no max_version. */
static PyObject *ask_capsule(PyObject *data, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(data, "__dlpack__");
    PyObject *none = PyTuple_New(0), *capsule = NULL;
    PyObject *keywords = Py_BuildValue("{s:O,s:(ii)}", "stream", stream, "max_version",
                                       DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
    if (method != NULL && none != NULL && keywords != NULL) {
        capsule = PyObject_Call(method, none, keywords);
        if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (PyDict_DelItemString(keywords, "max_version") == 0) {
                capsule = PyObject_Call(method, none, keywords);
            }
        }
    }
    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

/* The array's library refuses it, and says why: a tensor of PyTorch that needs its gradient. */
static void explain(void)
{
    if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        return;
    }
    PyObject *exception = amb_py_take_raised();
    PyErr_Format(PyExc_ValueError, "the array's library does not hand it out: %S", exception);
    Py_XDECREF(exception);
}

/* The capsule is held, not taken over: its end gives the array back. */
static bool take_dlpack(struct amb_py_source *source, PyObject *data)
{
    long type = device_of(data);
    if (type < 0) {
        return false;
    }
    bool is_device = type == kDLCUDA || type == kDLCUDAManaged;
    uintptr_t number = (uintptr_t)source->out.stream;
    PyObject *stream = is_device ? PyLong_FromSize_t(number != 0 ? number : 1) : Py_NewRef(Py_None);
    source->hold.owner = stream != NULL ? ask_capsule(data, stream) : NULL;
    Py_XDECREF(stream);
    if (source->hold.owner == NULL) {
        explain();
        return false;
    }
    if (PyCapsule_IsValid(source->hold.owner, "dltensor_versioned")) {
        const DLManagedTensorVersioned *managed =
            PyCapsule_GetPointer(source->hold.owner, "dltensor_versioned");
        if (managed->version.major != DLPACK_MAJOR_VERSION) {
            PyErr_SetString(PyExc_BufferError, "an array by a DLPack that is newer than version 1");
            return false;
        }
        return take_tensor(source, &managed->dl_tensor);
    }
    /* Before version 1 the DLTensor came first. */
    const DLTensor *tensor = PyCapsule_GetPointer(source->hold.owner, "dltensor");
    return tensor != NULL && take_tensor(source, tensor);
}

/* ---- __cuda_array_interface__ ---- */

/* Numbers of bytes in units, of which -1 stands for no whole number: no dense array has it. *count:
 * AMB_PY_DIMS + 1 for too many. False: an exception is raised. */
static bool read_numbers(PyObject *tuple, int64_t unit, int64_t *out, int32_t *count)
{
    Py_ssize_t len = PySequence_Size(tuple);
    for (Py_ssize_t i = 0; i < len && i < AMB_PY_DIMS; i++) {
        PyObject *item = PySequence_GetItem(tuple, i);
        int64_t number = item != NULL ? PyLong_AsLongLong(item) : -1;
        out[i] = number % unit == 0 ? number / unit : -1;
        Py_XDECREF(item);
    }
    *count = (int32_t)(len > AMB_PY_DIMS ? AMB_PY_DIMS + 1 : len);
    return len >= 0 && PyErr_Occurred() == NULL;
}

static bool read_typestr(const char *text, DLDataType *out)
{
    static const char letters[] = "iuf_Vcb"; /* in DLPack's numbers */
    const char *found = strlen(text) >= 3 ? strchr(letters, text[1]) : NULL;
    int bytes = found != NULL ? text[2] - '0' : 0;
    bytes = bytes == 1 && text[3] == '6' ? 16 : bytes;
    bool is_known = found != NULL && *found != '_' && *found != 'V' && text[0] != '>' &&
                    bytes >= 1 && bytes <= 16;
    if (!is_known) {
        PyErr_Format(PyExc_TypeError, "elements of '%s' cannot be published", text);
        return false;
    }
    *out =
        (DLDataType){.code = (uint8_t)(found - letters), .bits = (uint8_t)(8 * bytes), .lanes = 1};
    return true;
}

static bool take_interface(struct amb_py_source *source, PyObject *dict)
{
    int64_t shape[AMB_PY_DIMS] = {0}, strides[AMB_PY_DIMS] = {0};
    DLTensor tensor = {.device = {.device_type = kDLCUDA}, .shape = shape};
    PyObject *data = PyMapping_GetItemString(dict, "data");
    PyObject *dims = PyMapping_GetItemString(dict, "shape");
    PyObject *typestr = PyMapping_GetItemString(dict, "typestr");
    PyObject *steps = PyObject_CallMethod(dict, "get", "s", "strides");
    PyObject *address = data != NULL ? PySequence_GetItem(data, 0) : NULL;
    const char *type = typestr != NULL ? amb_py_text(typestr, "typestr") : NULL;
    int32_t count = 0;
    bool is_read =
        address != NULL && dims != NULL && type != NULL && steps != NULL &&
        read_typestr(type, &tensor.dtype) && read_numbers(dims, 1, shape, &tensor.ndim) &&
        (steps == Py_None || read_numbers(steps, tensor.dtype.bits / 8, strides, &count));
    if (is_read) {
        tensor.data = PyLong_AsVoidPtr(address);
        tensor.strides = steps != Py_None ? strides : NULL;
        is_read = PyErr_Occurred() == NULL;
    }
    Py_XDECREF(address);
    Py_XDECREF(steps);
    Py_XDECREF(typestr);
    Py_XDECREF(dims);
    Py_XDECREF(data);
    return is_read && take_tensor(source, &tensor);
}

/* Work of its stream comes first, unless the caller names one. */
static bool take_cuda(struct amb_py_source *source, PyObject *data)
{
    PyObject *dict = PyObject_GetAttrString(data, "__cuda_array_interface__");
    if (dict == NULL) {
        return false;
    }
    bool is_good = true;
    if (source->out.stream == NULL) {
        PyObject *stream = PyObject_CallMethod(dict, "get", "s", "stream");
        is_good = stream != NULL && amb_py_stream(stream, &source->out.stream);
        Py_XDECREF(stream);
    }
    source->hold.owner = Py_NewRef(data);
    is_good = is_good && take_interface(source, dict);
    Py_DECREF(dict);
    return is_good;
}

/* ---- all of them ---- */

static bool take_any(struct amb_py_source *source, PyObject *data)
{
    if (PyObject_CheckBuffer(data)) {
        if (PyObject_GetBuffer(data, &source->hold.view, PyBUF_FULL_RO) == 0) {
            source->hold.has_view = true;
            return take_view(source);
        }
        /* Elements without a code of struct: bfloat16, for one. */
        if (!PyObject_HasAttrString(data, "__dlpack__")) {
            return false;
        }
        PyErr_Clear();
    }
    if (PyObject_HasAttrString(data, "__dlpack__")) {
        return take_dlpack(source, data);
    }
    if (PyObject_HasAttrString(data, "__cuda_array_interface__")) {
        return take_cuda(source, data);
    }
    PyErr_Format(PyExc_TypeError,
                 PyUnicode_Check(data)
                     ? "a str cannot be published: encode it, as text.encode() does"
                     : "%R cannot be published: bytes, an array or a Message is wanted",
                 Py_TYPE(data));
    return false;
}

bool amb_py_source_init(struct amb_py_source *source, struct amb_py_state *state, PyObject *data,
                        PyObject *stream)
{
    memset(source, 0, offsetof(struct amb_py_source, props));
    source->out.size = sizeof(source->out);
    if (!amb_py_stream(stream, &source->out.stream)) {
        return false;
    }
    if (data == NULL) {
        return true;
    }
    if (Py_IS_TYPE(data, state->message)) {
        struct amb_msg *msg = amb_py_message_get(data);
        if (msg == NULL) {
            return false;
        }
        source->out.forward = source->hold.msg = amb_msg_ref(msg);
        source->out.tensor = amb_msg_tensor(msg);
        source->is_device = amb_msg_device(msg) >= 0;
        return true;
    }
    return take_any(source, data);
}

void amb_py_hold_fini(struct amb_py_hold *hold)
{
    if (hold->has_view) {
        hold->has_view = false;
        PyBuffer_Release(&hold->view);
    }
    Py_CLEAR(hold->owner);
    amb_msg_release(hold->msg);
    hold->msg = NULL;
}

void amb_py_source_fini(struct amb_py_source *source)
{
    amb_py_hold_fini(&source->hold);
    Py_CLEAR(source->kept);
}

/* ---- fields ---- */

/* Another thread may change the dict meanwhile. */
static bool keep(struct amb_py_source *source, PyObject *object)
{
    return object != NULL && (source->kept != NULL || (source->kept = PyList_New(0)) != NULL) &&
           PyList_Append(source->kept, object) == 0;
}

/* Text as UTF-8, bytes as they are, a number as its decimal text. */
static bool add_prop(struct amb_py_source *source, PyObject *name, PyObject *value)
{
    uint32_t count = source->out.prop_count;
    if (count == AMB_PY_PROPS_MAX) {
        PyErr_Format(PyExc_ValueError, "props: more than %u", AMB_PY_PROPS_MAX);
        return false;
    }
    struct amb_prop *prop = &source->props[count];
    Py_ssize_t len = 0;
    prop->name = amb_py_text(name, "the name of a property");
    if (prop->name == NULL || !keep(source, name)) {
        return false;
    }
    bool is_number = PyLong_Check(value) || PyFloat_Check(value);
    PyObject *own = is_number ? PyObject_Str(value) : Py_NewRef(value);
    bool is_kept = keep(source, own);
    char *bytes = NULL;
    if (is_kept && PyBytes_Check(own)) {
        is_kept = PyBytes_AsStringAndSize(own, &bytes, &len) == 0;
        prop->value = bytes;
    } else if (is_kept && PyUnicode_Check(own)) {
        prop->value = PyUnicode_AsUTF8AndSize(own, &len);
        is_kept = prop->value != NULL;
    } else if (is_kept) {
        PyErr_Format(PyExc_TypeError, "props: '%s' is neither text, bytes nor a number",
                     prop->name);
        is_kept = false;
    }
    Py_XDECREF(own);
    if (!is_kept) {
        return false;
    }
    prop->len = (size_t)len;
    source->out.props = source->props;
    source->out.prop_count = count + 1;
    return true;
}

static bool add_props(struct amb_py_source *source, PyObject *props)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(props)) {
        PyErr_SetString(PyExc_TypeError, "props: a dict is wanted");
        return false;
    }
    while (PyDict_Next(props, &at, &name, &value)) {
        if (!add_prop(source, name, value)) {
            return false;
        }
    }
    return true;
}

static bool set_seq(struct amb_py_source *source, PyObject *value)
{
    source->out.expect_seq = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() == NULL) {
        return true;
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_SetString(PyExc_ValueError, "expect_seq: from 0 up");
    }
    return false;
}

bool amb_py_source_field(struct amb_py_source *source, const char *name, PyObject *value)
{
    if (value == Py_None) {
        return true;
    }
    if (strcmp(name, "props") == 0) {
        return add_props(source, value);
    }
    if (strcmp(name, "key") == 0) {
        return (source->out.key = amb_py_text(value, name)) != NULL;
    }
    if (strcmp(name, "content_type") == 0) {
        return (source->out.content_type = amb_py_text(value, name)) != NULL;
    }
    if (strcmp(name, "ttl") == 0) {
        source->out.ttl_ns = amb_py_timeout(value);
        return source->out.ttl_ns >= 0;
    }
    if (strcmp(name, "expect_seq") == 0) {
        return set_seq(source, value);
    }
    PyErr_Format(PyExc_TypeError, "there is no option '%s'", name);
    return false;
}

bool amb_py_source_read(struct amb_py_source *source, struct amb_py_state *state, PyObject *data,
                        PyObject *keywords, int64_t *timeout_ns)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    PyObject *stream = keywords != NULL ? PyDict_GetItemString(keywords, "stream") : NULL;
    bool is_good = amb_py_source_init(source, state, data, stream);
    while (is_good && keywords != NULL && PyDict_Next(keywords, &at, &name, &value)) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (text != NULL && timeout_ns != NULL && strcmp(text, "timeout") == 0) {
            *timeout_ns = amb_py_timeout(value);
            is_good = *timeout_ns >= 0;
        } else if (text == NULL || strcmp(text, "stream") != 0) {
            is_good = text != NULL && amb_py_source_field(source, text, value);
        }
    }
    return is_good;
}
